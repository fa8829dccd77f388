"""Where the run is to be."""
