"""What other tools cost and say of one program, beside tprof: the measured table of docs/which-tool.md.

python -m pages.other_tools ENVIRONMENT [ROUNDS]

ENVIRONMENT is a virtual environment with codecarbon and scalene. Each round runs the program once under each tool, in
turns. The figures are user and system CPU seconds of all processes, of which other load on the machine changes little.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .blocks import ROOT

PROGRAM = ROOT / "examples" / "words.py"
IN_CODECARBON = """
import logging
from codecarbon import OfflineEmissionsTracker
import words
tracker = OfflineEmissionsTracker(country_iso_code="USA", save_to_file=False, log_level="error", tracking_mode=MODE)
tracker.start()
words.main()
tracker.stop()
print(f"codecarbon by {MODE}: {tracker.final_emissions_data.energy_consumed * 3.6e6:.3g} J")
"""


def main() -> None:
    """Print the median CPU seconds under each tool, and relative to the program alone."""
    tools, rounds = Path(sys.argv[1]) / "bin", int(sys.argv[2]) if len(sys.argv) > 2 else 5
    own = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "words.py").write_text(PROGRAM.read_text("utf-8"), "utf-8")
        for mode in ("process", "machine"):
            (place / f"{mode}.py").write_text(IN_CODECARBON.replace("MODE", repr(mode)), "utf-8")
        python = str(tools / "python")
        commands = {
            "alone": [python, "words.py"],
            "tprof run": [str(own / "tprof"), "run", "--overwrite", "--no-summary", "words.py"],
            "tprof run --task": [
                *(str(own / "tprof"), "run", "--overwrite", "--no-summary", "--task", "__main__:*", "words.py")
            ],
            "scalene run --cpu-only": [str(tools / "scalene"), "run", "--cpu-only", "words.py"],
            "cProfile": [python, "-m", "cProfile", "-o", "words.prof", "words.py"],
            "codecarbon, process": [python, "process.py"],
            "codecarbon, machine": [python, "machine.py"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                seconds[name].append(_cpu_s(command, place))
        alone = statistics.median(seconds["alone"])
        for name, measured in seconds.items():
            median = statistics.median(measured)
            print(f"{name:24} {median:6.2f} s  {median / alone:5.2f} ×  ({min(measured):.2f} … {max(measured):.2f} s)")


def _cpu_s(command: list[str], place: Path) -> float:
    """Run a command and return the CPU seconds of its processes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    with subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {process.returncode}")
    for line in output.splitlines():
        if line.endswith(" J"):
            print(line, flush=True)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
