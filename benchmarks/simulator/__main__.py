"""``python -m benchmarks.simulator COMMAND…``: run a command on a simulated machine."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .simulated_machine import FREQUENCIES_HZ, Machine, Shape

USAGE = "usage: python -P -m benchmarks.simulator COMMAND [ARGS]..."


def main() -> None:
    """Start the machine, run the command there, end with its status."""
    command = sys.argv[1:]
    if not command or shutil.which(command[0]) is None:
        why = f"there is no command {command[0]} that can be run" if command else "name the command to run there"
        sys.stderr.write(f"tprof: {why}\n{USAGE}\n")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder, Machine(Path(folder), Shape(FREQUENCIES_HZ)) as machine:
        done = subprocess.run(command, env=machine.environment, check=False)  # noqa: S603 - the user's command
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
