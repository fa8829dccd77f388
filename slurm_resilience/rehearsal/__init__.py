"""Trainings that are made to survive something, to see whether they do."""
