"""GPUs of NVIDIA."""
