"""Attribution: who used the joules of each quantum. NumPy only, for whole traces and for recordings that run."""
