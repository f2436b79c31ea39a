"""tprof: the energy of every task of a parallel Python program."""
