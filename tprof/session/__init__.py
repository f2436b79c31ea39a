"""A recording, what is global in a process, and how its children join."""
