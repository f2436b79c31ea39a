"""Messages under the logger `tprof`: none unless asked for, and what they name."""

import os

import pytest
from support import programs

RECORD = """
import {first} sys, tprof
{set_up}
with tprof.record("a.tprof", energy="estimate", overwrite=True) as recording, tprof.region("sum"):
    pass
recording.profile()
print("logging" in sys.modules)
"""


def run(tmp_path, *, first="", set_up="", **env):
    return programs.run(tmp_path, RECORD.format(first=first, set_up=set_up), env=os.environ | env)


@pytest.mark.thorough
def test_a_programs_own_handlers_print_nothing_of_it(tmp_path):
    done = run(tmp_path, first="logging,", set_up="logging.basicConfig(level=logging.DEBUG)")

    assert "tprof" not in done.stderr


def test_the_level_of_the_logger_lets_handlers_print(tmp_path):
    set_up = "logging.basicConfig(); logging.getLogger('tprof').setLevel('INFO')"
    said = run(tmp_path, first="logging,", set_up=set_up).stderr

    assert "INFO:tprof.sensors:package-0 is read from estimate (estimated)" in said
    assert "INFO:tprof.counters:" in said
    assert "WARNING:tprof.session:energy is an ESTIMATE" in said
    assert f"INFO:tprof.session:the recording {tmp_path}/a.tprof begins" in said
    assert "INFO:tprof.analysis:model cputime: " in said
    assert "DEBUG" not in said


@pytest.mark.thorough
def test_a_variable_prints_it_in_every_process(tmp_path):
    child = "import subprocess; subprocess.run([sys.executable, '-c', 'import tprof'], check=True)"
    program = RECORD.format(first="", set_up="").replace("    pass", f"    {child}")
    done = programs.run(tmp_path, program, env=os.environ | {"TPROF_LOG": "all"})

    assert f"joins {tmp_path}/a.tprof as number 1" in done.stderr
    assert "TPROF_LOG must be one of debug, info, warning, error, got 'all': info is taken" in done.stderr
    assert "DEBUG" not in done.stderr


@pytest.mark.thorough
def test_importing_tprof_does_not_load_logging(tmp_path):
    done = programs.run(
        tmp_path, "import tprof, tprof.log, sys; tprof.log.info('x', 'y'); print('logging' in sys.modules)"
    )

    assert done.stdout == "False\n"
