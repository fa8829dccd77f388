"""The process beside a rank that writes its snapshots, and outlives it. Loads no torch, h5py or numpy."""
