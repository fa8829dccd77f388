"""The health gate's checks, each on a machine made of files and commands that a test wrote."""
