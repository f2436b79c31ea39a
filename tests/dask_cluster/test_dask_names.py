"""Names of dask tasks."""

import pytest

pytest.importorskip("dask", reason="dask is not installed: pip install tprof-energy[dask]")
pytest.importorskip("distributed", reason="distributed is not installed: pip install tprof-energy[dask]")

from tprof.dask.names import name_of


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("inc-a7af49cd8fed57bdc4c690e080b4a93f", "inc"),
        (("sum-9782d15164d02adca7a2631b67fc2e72", 0, 1), "sum"),
        ("mine", "mine"),
        (7, "Other"),
        ("batch_of_fit_4_calls-a7af49cd8fed57bdc4c690e080b4a93f", "batch_of_fit"),
    ],
)
def test_a_task_has_the_name_of_its_keys_prefix(key, name):
    assert name_of(key, None) == name


def test_a_fused_task_has_the_names_of_its_parts_in_their_order():
    spec = pytest.importorskip("dask._task_spec", reason="fused tasks are other ones before dask 2024.12")
    load = spec.Task("load-0", list)
    clean = spec.Task("clean-0", sorted, spec.TaskRef("load-0"))
    count = spec.Task("count-0", len, spec.TaskRef("clean-0"))

    assert name_of("count-0", spec.Task.fuse(count, clean, load)) == "load-clean-count"
    nested = spec.Task.fuse(count, spec.Task.fuse(clean, load))
    assert name_of(("other-1", 0), nested) == "load-clean-count"


def test_a_long_chain_is_named_by_its_begin_and_end():
    spec = pytest.importorskip("dask._task_spec", reason="fused tasks are other ones before dask 2024.12")
    chain = [spec.Task("a-0", list)]
    chain += [
        spec.Task(f"{new}-0", sorted, spec.TaskRef(f"{old}-0")) for old, new in zip("abcdef", "bcdefg", strict=True)
    ]

    assert name_of("g-0", spec.Task.fuse(*chain)) == "a-b-c-…-g"
