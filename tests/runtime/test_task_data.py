"""What an argument is as data: memory of any type, lists of it, handles, and what is nothing."""

import array
import ctypes
import datetime as dt
import mmap
import pathlib
import threading

import numpy as np
import pytest
from tprof.runtime import Runtime

import tprof


@tprof.task(updates="data")
def hold(data, gate):
    gate.wait(30)


@tprof.task(updates="data")
def touch(data):
    pass


def waits(first, second):
    """Return whether a task that changes the second has to wait for one that changes the first."""
    gate = threading.Event()
    with Runtime(workers=2, keep_graph=True, library_threads=None) as runtime:
        hold(first, gate)
        touch(second)
        edges = runtime.graph().edges
        gate.set()
    return edges == ((1, 2),)


KINDS = ["?", "i1", ">i4", "f2", "f8", "g", "c16", "M8[s]", "m8[ns]", "O", "S3", "U2", "V5", "i4,f8", "T"]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_any_type_are_the_bytes_they_cover(kind):
    if kind == "T" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this NumPy has no strings of varying length")
    whole = np.zeros(8, np.dtypes.StringDType() if kind == "T" else kind)

    assert waits(whole, whole[3:4])
    assert waits(whole[::2], whole[4:])
    assert not waits(whole[::2], whole[1::2])
    assert not waits(whole, whole.copy())


def test_other_things_that_are_memory(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(4096))
    mapped = np.memmap(path, np.float64, "r+")
    letters = bytearray(b"abcdef")
    integers = array.array("i", [1, 2, 3])
    numbers = (ctypes.c_double * 4)()
    record = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])

    assert waits(mapped, mapped[:8])
    assert not waits(mapped[:8], mapped[8:])
    assert waits(letters, memoryview(letters)[2:3])
    assert not waits(memoryview(letters)[:2], memoryview(letters)[2:])
    assert waits(integers, np.frombuffer(integers, "i4")[1:])
    assert waits(numbers, np.frombuffer(numbers)[2:])
    assert waits(record.b, record)
    assert not waits(record.a, record.b)
    with mmap.mmap(-1, 4096) as anonymous:
        assert waits(anonymous, memoryview(anonymous)[5:6])


def test_arrays_that_may_not_be_written_and_arrays_without_dimensions():
    still = np.zeros(4)
    still.flags.writeable = False
    point = np.zeros(())

    assert waits(still, still[1:2])
    assert waits(point, point[...])
    assert waits(point, point.reshape(1))
    assert not waits(np.zeros((0, 3)), np.zeros((0, 3)))


EQUAL = [
    ("name", "NAME".lower()),
    (("row", 3), ("row", int("3"))),
    (10**20, int("1" + "0" * 20)),
    (1, True),
    (b"bytes", bytes(bytearray(b"bytes"))),
    (pathlib.Path("a/b"), pathlib.Path("a") / "b"),
    (dt.date(2020, 1, 1), dt.date.fromisoformat("2020-01-01")),
    (frozenset([1, 2]), frozenset([2, 1])),
    (object, object),
    (np.int64(3), np.int64(3)),
    (np.int64(3), 3),
    (np.float32(0.5), np.float64(0.5)),
    (np.str_("name"), "name"),
    (np.bytes_(b"name"), b"name"),
    (np.bool_(1), np.bool_(1)),
    (np.datetime64("2020-01-01"), np.datetime64("2020-01-01")),
]


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_handles_that_are_equal_are_one(first, second):
    assert waits(first, second)


@pytest.mark.parametrize(("first", "second"), [("a", "b"), (("row", 3), ("row", 4)), (object(), object()), (1, "1")])
def test_handles_that_differ_are_two(first, second):
    assert not waits(first, second)


def test_lists_are_what_they_hold():
    whole = np.zeros(8)

    assert waits([whole[:2], whole[2:4]], whole[3:])
    assert waits((whole[:2], whole[6:]), [whole[:1]])
    assert not waits([whole[:2], None], [whole[2:]])
    assert not waits([], [])
    assert waits([whole[at : at + 1] for at in range(8)], whole[7:])
    assert waits(["a", "b"], "b")


def test_none_is_nothing():
    assert not waits(None, None)
    assert not waits([None], [None])


class Account:
    def __init__(self, number) -> None:
        self.number = number
        self.sums = []

    def __eq__(self, other) -> bool:
        return isinstance(other, Account) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    @tprof.task(updates="self")
    def add(self, amount):
        self.sums.append(amount)

    def plain(self, data):
        self.sums.append(data)

    @staticmethod
    @tprof.task(updates="account")
    def put(account, amount) -> None:
        account.sums.append(amount)

    @classmethod
    @tprof.task(reads="cls")
    def name(cls) -> str:
        return cls.__name__

    @tprof.task(updates="self")
    @staticmethod
    def outer_put(self, amount) -> None:  # noqa: PLW0211 - its first parameter's name is all there is to it
        self.sums.append(amount)


def test_methods_touch_the_object_that_they_are_called_on():
    one, same, other = Account(1), Account(1), Account(2)

    with Runtime(workers=4, keep_graph=True) as runtime:
        gate = threading.Event()
        hold(one, gate)
        one.add(1)
        same.add(2)
        Account.put(one, 3)
        Account.outer_put(one, 4)
        free = Account.put(other, 5)
        named = Account.name()
        free.result()
        edges = runtime.graph().edges
        gate.set()

    assert edges == ((1, 2), (2, 3), (3, 4), (4, 5))
    assert one.sums == [1, 3, 4]
    assert named.result() == "Account"


def test_a_method_is_submitted_with_its_object():
    one, same = Account(1), Account(1)

    with Runtime(workers=2, keep_graph=True) as runtime:
        gate = threading.Event()
        hold(one, gate)
        hold("x", gate)
        runtime.submit(one.add, 5)
        runtime.submit(same.plain, "x", updates="data")
        runtime.submit(Account.name, reads="cls")
        edges = runtime.graph().edges
        gate.set()

    assert edges == ((1, 3), (2, 4))
    assert one.sums == [5]
    assert same.sums == ["x"]


SHARED = np.zeros(4)


@tprof.task(reads="b", updates=("a", "rest", "c"), writes="d")
def many(a, b=None, *rest, c=SHARED, d=None, **others):
    return a, b, rest, c, d, others


def edges_of(call, data):
    gate = threading.Event()
    with Runtime(workers=2, keep_graph=True, library_threads=None) as runtime:
        hold(data, gate)
        task = call()
        edges = runtime.graph().edges
        gate.set()
    task.result()
    return edges


def test_parameters_by_position_by_name_by_default_and_the_rest():
    x = np.zeros(4)
    waited = ((1, 2),)

    assert edges_of(lambda: many(x), x) == waited
    assert edges_of(lambda: many(a=x), x) == waited
    assert edges_of(lambda: many(1, x), x) == waited
    assert edges_of(lambda: many(1, b=x), x) == waited
    assert edges_of(lambda: many(1, 2, 3, x), x) == waited
    assert edges_of(lambda: many(1, c=x), x) == waited
    assert edges_of(lambda: many(1, d=[x]), x) == waited
    assert edges_of(lambda: many(1), SHARED) == waited
    assert edges_of(lambda: many(1, 2, 3, 4), SHARED) == waited
    assert edges_of(lambda: many(1, c=x), SHARED) == ()
    assert edges_of(lambda: many(1, other=x), x) == ()


def test_arguments_arrive_as_they_were_passed():
    x = np.zeros(4)

    with Runtime(workers=1):
        task = many(1, 2, 3, x, d=5, e=6)

    a, b, rest, c, d, others = task.result()
    assert (a, b, rest[0], d, others) == (1, 2, 3, 5, {"e": 6})
    assert rest[1] is x
    assert c is SHARED


def test_a_call_that_does_not_fit_fails_as_the_call_would():
    with Runtime(workers=1):
        task = touch(1, 2, 3)
        with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
            task.result()


@pytest.mark.parametrize("data", [{}, set(), [{}], ({},), [[1]]])
def test_data_that_can_carry_no_dependence_is_refused_in_one_sentence(data):
    with Runtime(workers=1) as runtime:
        with pytest.raises(TypeError) as caught:
            touch(data)
        assert runtime.counts()["spawned"] == 0

    assert str(caught.value) == (
        f"task touch declares access to its argument 'data', which got a {type(data).__name__}: that is neither an "
        "array nor hashable; pass an array, a list of arrays or a hashable handle"
    )


BEYOND = {
    "half of all addresses": ((5,), (2**61,)),
    "backwards": ((5,), (-(2**61),)),
    "more than all addresses": ((2**20, 2**20), (2**50, 2**45)),
    "each a part": ((3, 3, 3), (2**59, -(2**59), 2**59)),
    "before the first address": ((2**20,), (-(2**39),)),
}


@pytest.mark.parametrize("kind", ["f8", "M8[s]"])
@pytest.mark.parametrize("shape", BEYOND)
def test_strides_that_lead_out_of_memory_are_refused_in_one_sentence(kind, shape):
    data = np.lib.stride_tricks.as_strided(np.zeros(8, kind), *BEYOND[shape])
    with Runtime(workers=1) as runtime:
        with pytest.raises(ValueError, match="task touch") as caught:
            touch([np.zeros(3), data])
        with pytest.raises(ValueError, match="lead out of memory") as waited:
            runtime.wait(data)
        assert runtime.counts()["spawned"] == 0

    assert str(caught.value) == (
        "task touch declares access to its argument 'data', which got a list: its strides lead out of memory; pass "
        "only the part that the task touches"
    )
    assert str(waited.value) == (
        "wait() got a numpy.ndarray: its strides lead out of memory; pass only the part that tasks touch"
    )


def test_what_is_refused_is_named_wherever_it_came_from():
    with Runtime(workers=1) as runtime:
        with pytest.raises(TypeError, match="task many declares access to one of its further arguments, which got a"):
            many(1, 2, {})
        with pytest.raises(TypeError, match="task many declares access to its argument 'd', which got a dict"):
            many(1, d={})
        for _ in range(2):
            with pytest.raises(TypeError, match="<lambda> declares access to its argument 'x', which got a set"):
                runtime.submit(lambda x: x, set(), reads="x")


def test_a_handle_whose_hash_raises_says_so_and_does_no_harm():
    class Broken:
        def __hash__(self) -> int:
            raise ValueError("no hash today")

    with Runtime(workers=1):
        with pytest.raises(ValueError, match="no hash today"):
            touch(Broken())
        assert touch(1).result() is None
