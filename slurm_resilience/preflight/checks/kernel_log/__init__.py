"""What the kernel said."""
