"""All recordings whose figures are frozen."""

from frozen import edge_cases, recordings, rules

RECORDINGS = recordings.RECORDINGS
assert edge_cases
assert rules
