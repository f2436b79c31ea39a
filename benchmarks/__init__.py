"""Task-parallel programs and micro-benchmarks."""
