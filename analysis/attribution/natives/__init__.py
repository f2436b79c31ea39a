"""Native threads of libraries: who uses each pool of them, and what its CPU time is."""
