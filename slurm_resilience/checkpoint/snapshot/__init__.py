"""A state as it was at one instant, in shared memory that looks like the file it will be."""
