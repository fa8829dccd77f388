"""The node itself: memory, processors, limits, power."""
