"""Task-parallel programs, each a module with `run(size, workers, during)` and `count_instances(size)`, and what serves several."""
