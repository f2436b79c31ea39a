"""Which processor is on which package and core."""

import os

import pytest
from support import fake_trees

from tprof.sensors.topology import parse_cpu_list, read_topology


def test_processors_know_their_package_and_core(tmp_path):
    topology = read_topology(fake_trees.server(tmp_path).root)

    assert [(cpu.cpu, cpu.package, cpu.core) for cpu in topology][3:6] == [(3, 0, 3), (4, 1, 4), (5, 1, 5)]
    assert {cpu.core_type for cpu in topology} == {None}


def test_numbers_are_ordered_as_numbers(tmp_path):
    tree = fake_trees.Tree(tmp_path)
    tree.cpus({0: range(12)})

    assert [cpu.cpu for cpu in read_topology(tmp_path)] == list(range(12))


def test_a_hybrid_processor_names_its_core_types(tmp_path):
    topology = read_topology(fake_trees.hybrid(tmp_path).root)

    assert [cpu.core_type for cpu in topology] == ["core"] * 4 + ["atom"] * 4


def test_an_offline_processor_is_on_no_package(tmp_path):
    """The kernel takes its topology away; package 0 would be a guess, wrong on the second socket."""
    tree = fake_trees.server(tmp_path)
    tree.write("sys/devices/system/cpu/online", "0-5,7")
    for file in (tmp_path / "sys/devices/system/cpu/cpu6/topology").iterdir():
        file.unlink()

    assert [cpu.cpu for cpu in read_topology(tmp_path)] == [0, 1, 2, 3, 4, 5, 7]


def test_a_package_that_the_kernel_does_not_know_is_the_first(tmp_path):
    fake_trees.Tree(tmp_path).cpu(0, package=-1)

    assert [cpu.package for cpu in read_topology(tmp_path)] == [0]


def test_without_sysfs_there_is_one_package(tmp_path):
    topology = read_topology(tmp_path)

    assert {cpu.package for cpu in topology} == {0}
    assert len(topology) == os.cpu_count()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0-3,8\n", (0, 1, 2, 3, 8)),
        ("5", (5,)),
        ("", ()),
        ("\n", ()),
        ("a-b,2", (2,)),
        ("3-", (3,)),
        ("0-99999999999,1", (1,)),
        ("9" * 5000, ()),
        ("\N{SUPERSCRIPT TWO}-3,4", (4,)),
    ],
)
def test_lists_of_processors_are_read_as_the_kernel_writes_them(text, numbers):
    assert parse_cpu_list(text) == numbers
