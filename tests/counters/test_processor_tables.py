"""The tables of processors: each can be read, no processor is in two, and each event fits its PMU."""

import itertools
import re

import pytest

from tprof import processors
from tprof.counters.groups import BY_NAME, GENERIC, SOFTWARE
from tprof.processors.tables import kind_of, parse_format, read_table
from tprof.sensors.assumed import table

CORES = processors.all_cores()
COLUMNS = {name for name, counter in BY_NAME.items() if counter.type != SOFTWARE}
X86_PMUS = ("cpu", "cpu_core", "cpu_atom", "cpu_lowpower")
ARM_PMUS = ("armv8_pmuv3_0", "armv8_cortex_a72", "apple_icestorm_pmu", "apple_firestorm_pmu", "apple_avalanche_pmu")
PLACES = ("perfmon:", "linux:", "libpfm4:", "likwid:", "arm:")


def ids(core):
    return f"{core.table} {core.name}"


def x86_processors():
    for maker, families in (("GenuineIntel", (6, 15, 18, 19)), ("AuthenticAMD", (16, 21, 23, 25, 26))):
        for family, model in itertools.product(families, range(256)):
            yield from (f"{maker}-{family}-{model:X}-{stepping:X}" for stepping in (0, 4, 5, 15))


def arm_processors():
    return (f"0x{maker:02x}-0x{part:03x}" for maker in (0x41, 0x51, 0x61, 0xC0) for part in range(0x1000))


@pytest.mark.parametrize(("named", "pmus"), [(x86_processors, X86_PMUS), (arm_processors, ARM_PMUS)])
def test_no_processor_is_matched_by_two(named, pmus):
    """Of the PMU that shows one kind of core, that is: those of a hybrid processor have one section each."""
    for processor in named():
        found = [core for core in CORES if processors.matches(core.processors, processor)]
        for pmu in pmus:
            assert sum(re.fullmatch(core.pmu, pmu) is not None for core in found) <= 1, (processor, pmu)


@pytest.mark.parametrize("core", CORES, ids=ids)
def test_every_event_of_a_table_fits_its_format_and_has_a_source(core):
    assert {"instructions", "cycles"} <= set(core.lines) <= COLUMNS
    assert set(core.counters) <= {"fixed", "general", "bits"}
    for column, line in core.lines.items():
        assert processors.encode(line.terms, core.format) > 0
        assert line.source.startswith(PLACES)
        assert line.generic is None or line.generic in GENERIC
        assert line.generic is None or GENERIC[line.generic] == BY_NAME[column].config


def test_kinds_of_processors_are_rows_of_the_assumed_watts():
    assert {kind for core in CORES for kind, _ in core.kinds} <= set(table())
    assert kind_of("GenuineIntel-6-8F-8") == "intel-server"
    assert kind_of("AuthenticAMD-25-61-2") == "desktop"
    assert kind_of("GenuineIntel-6-F-B") is None


@pytest.mark.parametrize(
    ("processor", "pmu", "name"),
    [
        ("GenuineIntel-6-3C-3", "cpu", "Haswell"), ("GenuineIntel-6-9E-D", "cpu", "Skylake"),
        ("GenuineIntel-6-55-4", "cpu", "Skylake, server"), ("GenuineIntel-6-55-7", "cpu", "Cascade Lake"),
        ("GenuineIntel-6-6A-6", "cpu", "Ice Lake, server"), ("GenuineIntel-6-8F-8", "cpu", "Sapphire Rapids"),
        ("GenuineIntel-6-97-2", "cpu_atom", "Gracemont (Alder and Raptor Lake)"),
        ("GenuineIntel-6-97-2", "cpu", "Golden Cove (Alder and Raptor Lake)"),
        ("GenuineIntel-6-AA-4", "cpu_core", "Redwood Cove (Meteor Lake)"),
        ("AuthenticAMD-23-1-2", "cpu", "Zen 1"), ("AuthenticAMD-23-31-0", "cpu", "Zen 2"),
        ("AuthenticAMD-25-1-1", "cpu", "Zen 3"), ("AuthenticAMD-25-61-2", "cpu", "Zen 4"),
        ("AuthenticAMD-26-44-0", "cpu", "Zen 5"), ("0x41-0xd08", "armv8_pmuv3", "Cortex-A72"),
        ("0x41-0xd0b", "armv8_pmuv3_0", "Cortex-A76"), ("0x41-0xd41", "armv8_pmuv3_1", "Cortex-A78"),
        ("0x41-0xd44", "armv8_pmuv3_2", "Cortex-X1"), ("0x41-0xd0c", "armv8_pmuv3_0", "Neoverse N1"),
        ("0x41-0xd49", "armv8_pmuv3_0", "Neoverse N2"), ("0x41-0xd40", "armv8_pmuv3_0", "Neoverse V1"),
        ("0x41-0xd4f", "armv8_pmuv3_0", "Neoverse V2"), ("0x61-0x023", "apple_firestorm_pmu", "Firestorm (M1)"),
    ],
)  # fmt: skip
def test_a_processor_is_found_by_its_numbers(processor, pmu, name):
    assert processors.find_core(processor, pmu).name == name


def test_a_processor_is_named_by_what_the_kernel_says_of_it():
    intel = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "85", "stepping": "7"}

    assert processors.identify(intel) == "GenuineIntel-6-55-7"
    assert processors.identify({"CPU implementer": "0x41", "CPU part": "0xd0c"}) == "0x41-0xd0c"
    assert processors.identify(intel | {"model": "unknown"}) is None
    assert processors.identify({"vendor_id": "GenuineIntel"}) is None


HEAD = "format event=config:0-7 umask=config:8-15  here\n[One]\nprocessors A-1-2  here\npmu cpu\n"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("cycles event=0x3c cycles", "t.txt, line 5: it is none of the lines that a section has"),
        ("cycles event cycles CYCLES here", "t.txt, line 5: invalid literal"),
        ("cycles event=1 - C here\ncycles event=2 - C here", "t.txt, line 6: .*, or a column's second one"),
    ],
)
def test_a_line_that_is_none_is_named(line, problem):
    with pytest.raises(ValueError, match=problem):
        read_table("t.txt", HEAD + line)


def test_a_section_without_processors_and_lines_before_the_first_are_refused():
    with pytest.raises(ValueError, match=re.escape("t.txt: [One] lacks processors or pmu")):
        read_table("t.txt", "[One]\npmu cpu\n")
    with pytest.raises(ValueError, match=re.escape("t.txt, line 1: it stands before the first section")):
        read_table("t.txt", "pmu cpu\n")


def test_terms_are_put_where_the_format_says():
    layout = {"event": parse_format("config:0-7,32-35"), "umask": parse_format("config:8-15")}

    assert processors.encode((("event", 0x1A0), ("umask", 0x1E)), layout) == 0x1_0000_1EA0
    with pytest.raises(ValueError, match="has no cmask"):
        processors.encode((("cmask", 1),), layout)
    with pytest.raises(ValueError, match="too few bits for umask"):
        processors.encode((("umask", 0x100),), layout)


@pytest.mark.parametrize("text", ["config1:0-15", "config:0-64", "config:7-0", "event", ""])
def test_a_format_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_format(text)
