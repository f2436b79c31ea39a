"""Operating points: which frequency or power limit, and how many workers, a task and a program should run at.

An operating point is a setting and a number of workers. `table` reads what was measured at some of them, and `measured`
takes means; `laws` says how time and power depend on both, `fit` and `draws` predict what was not run, with its
uncertainty; `choice` decides, `reasons` says why, and `advice` is the whole. A policy that decides while a program runs
uses `curves`, means for each task and frequency, and `goals`, what each of them costs. Neither needs pandas, and so
this package imports nothing by itself.
"""
