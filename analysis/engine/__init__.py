"""One pass over a recording, in blocks: its samples become segments and instances, its readings joules of these.

The loops are in C (`csrc`). What one block leaves for the next is the running sample of each thread, the segments that
a later interval overlaps, and the instances that may run on.
"""
