"""A part as HDF5: what lies where in the file, and what it means."""
