"""Task-parallel programs, each a module with `run(size, workers, during)` and `count_instances(size)`.

`outcome` makes each of them a script; `blas` has the kernels of linear algebra.
"""
