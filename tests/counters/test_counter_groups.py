"""Which events count a column on which processor, and one group for each kind of core."""

import errno

import pytest
from support import fake_trees

from tprof import counters
from tprof.counters.groups import GENERIC, HARDWARE, KERNEL, SOFTWARE, Event
from tprof.errors import SensorError

WORKS = (0, 1000, 50, 50)
ELSEWHERE = (0, 0, 50, 0)
"""An event of the cores on which the probing thread is not."""
SKYLAKE_SERVER = (6, 0x55, 4)
UNLISTED = (6, 0x0F, 11)


def x86(root, vendor, numbers, **files):
    tree = fake_trees.Tree(root)
    tree.processor(vendor, numbers=numbers)
    tree.pmu("cpu", 4, **files)
    return tree


def choose(tree, asked="auto", probe=lambda _: WORKS, **options):
    return counters.choose(asked, root=tree.root, probe=probe, **options)


def test_what_the_kernel_counts_alike_is_its_own_event_and_the_rest_is_the_tables(tmp_path):
    plan = choose(x86(tmp_path, fake_trees.INTEL, SKYLAKE_SERVER), ["l2_refs", "stalls_frontend"])

    (group,) = plan.groups
    assert (group.pmu, group.core, group.table, group.part) == ("cpu", "Skylake, server", "intel-skylake.txt", False)
    assert group.events == (
        Event("instructions", HARDWARE, GENERIC["instructions"]),
        Event("cycles", HARDWARE, GENERIC["cycles"]),
        Event("llc_misses", HARDWARE, GENERIC["cache-misses"]),
        Event("l2_refs", 4, 0xFF24),
        Event("stalls_frontend", 4, 0x0400019C),
    )
    assert plan.notes == ()


def test_on_amd_the_last_caches_misses_are_lines_from_memory(tmp_path):
    (group,) = choose(x86(tmp_path, fake_trees.AMD, (25, 0x11, 1)), ["llc_refs", "l2_refs"]).groups

    assert group.core == "Zen 4"
    assert {event.column: event.config for event in group.events[2:]} == {
        "llc_misses": 0x4844, "llc_refs": 0x0964, "l2_refs": 0xFF60,
    }  # fmt: skip


def test_what_a_core_cannot_count_is_left_out_with_its_reason(tmp_path):
    tree = x86(tmp_path, fake_trees.AMD, (23, 1, 2))

    plan = choose(tree)
    with pytest.raises(SensorError) as refused:
        choose(tree, ["llc_misses"])

    assert [counter.column for counter in plan.counters] == ["instructions", "cycles"]
    assert plan.notes == ("no llc_misses: Zen 1 has no event for it (table amd-zen.txt)",)
    assert str(refused.value) == (
        "the counter llc_misses does not count here: Zen 1 has no event for it (table amd-zen.txt); "
        'leave it out or use counters="auto"'
    )


def test_a_processor_in_no_table_has_the_kernels_generic_events_and_one_sentence(tmp_path):
    tree = x86(tmp_path, fake_trees.INTEL, UNLISTED)

    plan = choose(tree)

    (group,) = plan.groups
    assert (group.core, group.table) == (None, None)
    assert [(event.type, event.config) for event in group.events] == [(HARDWARE, 1), (HARDWARE, 0), (HARDWARE, 3)]
    (note,) = plan.notes
    assert note == (
        "no table of tprof lists this processor (GenuineIntel-6-F-B): llc_misses is the kernel's generic event, and "
        "what that counts depends on the processor"
    )
    with pytest.raises(
        SensorError, match="no table of tprof lists this processor, and the kernel has no generic event"
    ):
        choose(tree, ["l2_refs"])


def test_events_that_mean_the_same_everywhere_need_no_table(tmp_path):
    refuse_misses = lambda event: (errno.ENOENT, 0, 0, 0) if event.column == "llc_misses" else WORKS  # noqa: E731

    plan = choose(x86(tmp_path, fake_trees.INTEL, UNLISTED), probe=refuse_misses)

    assert plan.notes == ("no llc_misses: the processor or its hypervisor offers no such event",)


def test_a_hybrid_machine_opens_one_group_per_kind_of_core(tmp_path):
    tree = fake_trees.hybrid(tmp_path)

    plan = choose(tree, ["llc_refs", "l2_refs", "page_faults"])

    slow, fast, kernel = plan.groups
    assert (slow.pmu, slow.core, slow.part) == ("cpu_atom", "Gracemont (Alder and Raptor Lake)", True)
    assert (fast.pmu, fast.core, fast.part) == ("cpu_core", "Golden Cove (Alder and Raptor Lake)", True)
    assert (kernel.pmu, kernel.part) == (KERNEL, False)
    configs = {"instructions": 0xC0, "cycles": 0x3C, "llc_misses": 0x412E, "llc_refs": 0x4F2E}
    assert fast.events == tuple(Event(column, 4, code) for column, code in {**configs, "l2_refs": 0xFF24}.items())
    assert slow.events == tuple(Event(column, 10, code) for column, code in {**configs, "l2_refs": 0x24}.items())
    assert kernel.events == (Event("page_faults", SOFTWARE, 2),)
    assert plan.recorded() == (
        (True, tuple((place, 10, event.config) for place, event in enumerate(slow.events))),
        (True, tuple((place, 4, event.config) for place, event in enumerate(fast.events))),
        (False, ((5, SOFTWARE, 2),)),
    )


def test_the_events_of_the_kind_of_core_on_which_nothing_runs_count_too(tmp_path):
    tree = fake_trees.hybrid(tmp_path)

    on_fast = choose(tree, probe=lambda event: WORKS if event.type == 4 else ELSEWHERE)
    nowhere = choose(tree, probe=lambda event: WORKS if event.type == SOFTWARE else ELSEWHERE)

    assert on_fast.source == "perf"
    assert nowhere.source == "none"
    assert "it opens but never runs" in nowhere.why


def test_what_one_kind_of_core_cannot_count_is_counted_on_none(tmp_path):
    with pytest.raises(SensorError, match=r"stalls_frontend does not count here: Gracemont .* has no event for it"):
        choose(fake_trees.hybrid(tmp_path), ["stalls_frontend"])


def test_a_hybrid_machine_in_no_table_has_the_generic_events_of_each_pmu(tmp_path):
    tree = fake_trees.hybrid(tmp_path)
    tree.processor(fake_trees.INTEL, numbers=UNLISTED)

    plan = choose(tree)

    assert [[event.config for event in group.events] for group in plan.groups] == [
        [kind << 32 | config for config in (1, 0, 3)] for kind in (10, 4)
    ]
    assert plan.notes[0].startswith("no table of tprof lists this processor (GenuineIntel-6-F-B): llc_misses is")


def test_a_board_of_two_kinds_of_arm_cores_has_the_events_of_each(tmp_path):
    plan = choose(fake_trees.arm_board(tmp_path))

    assert [(group.pmu, group.core) for group in plan.groups] == [
        ("armv8_cortex_a53", "Cortex-A53"), ("armv8_cortex_a72", "Cortex-A72"),
    ]  # fmt: skip
    assert [[(event.type, event.config) for event in group.events] for group in plan.groups] == [
        [(kind, 0x08), (kind, 0x11), (kind, 0x17)] for kind in (7, 8)
    ]


def test_an_arm_servers_misses_are_those_of_its_last_cache(tmp_path):
    (group,) = choose(fake_trees.arm_server(tmp_path)).groups

    assert (group.pmu, group.core) == ("armv8_pmuv3_0", "Neoverse N1")
    assert group.events[2] == Event("llc_misses", 8, 0x37)


def test_the_format_that_the_kernel_shows_goes_before_the_tables(tmp_path):
    wide = {**fake_trees.INTEL_FORMAT, "format__umask": "config:8-15,40-47", "format__event": "config:0-3,48-51"}
    tree = x86(tmp_path, fake_trees.INTEL, SKYLAKE_SERVER, **wide)

    (group,) = choose(tree, ["l2_refs"]).groups

    assert group.events[-1] == Event("l2_refs", 4, 2 << 48 | 0xFF04)


def test_an_event_that_the_pmus_format_does_not_take_is_left_out(tmp_path):
    tree = x86(
        tmp_path, fake_trees.INTEL, SKYLAKE_SERVER, **{**fake_trees.INTEL_FORMAT, "format__umask": "config:8-11"}
    )

    with pytest.raises(SensorError, match=r"cpu does not take L2_RQSTS\.REFERENCES: the PMU's format has too few bits"):
        choose(tree, ["l2_refs"])
