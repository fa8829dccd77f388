"""What connects this node to others."""
