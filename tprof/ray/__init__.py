"""Records what a cluster of Ray runs."""
