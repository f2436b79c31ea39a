"""Micro-benchmarks: each measures in interleaved rounds of one run and returns plain values with its targets."""
