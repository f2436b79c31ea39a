"""Task-parallel programs, each a module with `run(size, workers)` and `count_instances(size)`."""
