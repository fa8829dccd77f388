"""The failures that are known by what they leave in logs: data, one file for each program that writes such lines."""
