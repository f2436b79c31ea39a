"""What `from tprof import tprof` finds, which programs say that were written for another profiler: it only raises."""

raise ImportError(
    "this tprof is an energy profiler (the distribution tprof-energy); the targeting profiler that has a function "
    "tprof is the distribution tprof: install the one you want, each in an environment of its own"
)
