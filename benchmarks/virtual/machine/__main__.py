"""``python -m tprof.benchmarks.virtual.machine COMMAND…``: run a command on a simulated machine."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tprof.benchmarks.published import HIGHEST_HZ, LOWEST_HZ

from .machine import Machine
from .tree import Shape

COUNT = 19  # as the paper's processor; printed are only both ends, so the rest is spread evenly
STEP_HZ = 1_000_000
USAGE = "usage: python -m tprof.benchmarks.virtual.machine COMMAND [ARGS]..."


def main() -> None:
    """Start the machine, run the command there, end with its status."""
    command = sys.argv[1:]
    if not command or shutil.which(command[0]) is None:
        why = f"there is no command {command[0]} that can be run" if command else "name the command to run there"
        sys.stderr.write(f"tprof: {why}\n{USAGE}\n")
        sys.exit(2)
    between = (LOWEST_HZ + (HIGHEST_HZ - LOWEST_HZ) * place // (COUNT - 1) for place in range(COUNT))
    shape = Shape(tuple(hz // STEP_HZ * STEP_HZ for hz in between))
    with tempfile.TemporaryDirectory() as folder, Machine(Path(folder), shape) as machine:
        done = subprocess.run(command, env=machine.environment, check=False)  # noqa: S603 - the user's command
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
