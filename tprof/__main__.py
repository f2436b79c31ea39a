"""`python -m tprof` is the command `tprof`."""

from tprof.cli import main

if __name__ == "__main__":
    main()
