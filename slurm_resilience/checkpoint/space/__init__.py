"""Room on a file system: how much there is, how long it lasts, and what to give up first when it is gone."""
