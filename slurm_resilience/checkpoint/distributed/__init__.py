"""States that lie in pieces on many ranks: DTensors, and torch.distributed.checkpoint's plans, in our parts."""
