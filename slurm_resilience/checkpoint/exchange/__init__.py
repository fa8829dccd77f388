"""Checkpoints and the world outside: other libraries' files in and out, and two states held against each other."""
