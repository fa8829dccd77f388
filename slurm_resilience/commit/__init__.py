"""How the parts that ranks have written become a checkpoint, whether or not those ranks still live.

Knows files only: it runs in the writer processes, in the next attempt, and on a login node. Loads no torch, no h5py.
"""
