"""A recording from its first frame to its last."""
