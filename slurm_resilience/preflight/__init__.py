"""Before the training: is this job's set of nodes fit for it?"""
