"""Other programs' habits, made to fit: one file per program."""
