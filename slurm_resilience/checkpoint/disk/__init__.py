"""Bytes between memory and the file system, as fast as both allow. Knows nothing of what they mean."""
