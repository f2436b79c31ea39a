"""PolyBench's kernels compute what NumPy says, count their work right, and refuse arrays that would lead outside."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import examples
from tprof.benchmarks import PROGRAMS
from tprof.benchmarks.polybench import KERNELS, SIZES, Kernel, _polybench, loads, run
from tprof.benchmarks.polybench.polybench_kernels import SIGNATURES
from tprof.benchmarks.programs import polybench as program
from tprof.benchmarks.programs.outcome import WrongResultError

from benchmarks.simulator import POLYBENCH

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)


@st.composite
def sizes_of(draw, kernel):
    letters = sorted({letter for letters in kernel.shapes.values() for letter in letters})
    least = 2 if kernel.name == "covariance" else 1
    sizes = {letter: draw(st.integers(least if letter == "k" else 1, 9)) for letter in letters}
    return sizes | ({"t": draw(st.integers(1, 4))} if "t" in kernel.small else {})


def random_arrays(kernel, sizes, seed):
    random = np.random.default_rng(seed)
    return {
        name: random.uniform(-1, 1, [sizes[letter] for letter in letters]) for name, letters in kernel.shapes.items()
    }


def assert_as_numpy_says(kernel, arrays, steps):
    before = {name: values.copy() for name, values in arrays.items()}

    run(kernel, arrays, steps)

    right = kernel.reference(before, steps)
    assert set(right) == set(kernel.changed)
    for name, values in arrays.items():
        np.testing.assert_allclose(values, right.get(name, before[name]), rtol=1e-9, atol=1e-9, err_msg=name)


@every_kernel
@examples(40)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_kernel_computes_what_numpy_says_for_any_numbers_and_sizes(kernel, data, seed):
    sizes = data.draw(sizes_of(kernel))

    assert_as_numpy_says(kernel, random_arrays(kernel, sizes, seed), sizes.get("t", 1))


@every_kernel
@pytest.mark.parametrize("edge", [1, 2, 3])
def test_a_kernel_of_one_two_or_three_in_each_dimension_is_right(kernel, edge):
    sizes = dict.fromkeys("ijklmt", edge)
    sizes["k"] = max(edge, 2)

    assert_as_numpy_says(kernel, random_arrays(kernel, sizes, edge), edge if "t" in kernel.small else 1)


@every_kernel
def test_the_initial_values_are_the_same_each_time_and_give_finite_results(kernel):
    sizes = {letter: 1 + size // 7 for letter, size in kernel.small.items()}
    arrays, again = kernel.arrays(sizes), kernel.arrays(sizes)

    for name, letters in kernel.shapes.items():
        assert arrays[name].shape == tuple(sizes[letter] for letter in letters)
        assert np.array_equal(arrays[name], again[name])
    assert_as_numpy_says(kernel, arrays, sizes.get("t", 1))
    assert all(np.isfinite(arrays[name]).all() and arrays[name].any() for name in kernel.results)


def test_initial_values_are_polybenchs():
    """Taken by hand from the formulas of gemm and correlation."""
    gemm = KERNELS["gemm"].arrays({"i": 3, "j": 4, "k": 5})
    data = KERNELS["correlation"].arrays({"i": 4, "k": 3})["data"]

    assert gemm["C"][2].tolist() == [1 / 3, 0 / 3, 2 / 3, 1 / 3]
    assert gemm["A"][2].tolist() == [2 / 5, 4 / 5, 1 / 5, 3 / 5, 0 / 5]
    assert gemm["B"][3].tolist() == [2 / 4, 1 / 4, 0 / 4, 3 / 4]
    assert data[2].tolist() == [2.0, 2.5, 3.0, 3.5]


def test_the_kernels_are_those_of_the_virtual_processor_and_of_the_c_code():
    assert list(KERNELS) == [one.name for one in POLYBENCH]
    assert set(KERNELS) == set(SIGNATURES)


def triangle(n):
    return [(i, j) for i in range(n) for j in range(i)]


def inner(n):
    return range(1, n - 1)


LOOPS = {
    "gemm": lambda i, j, k: sum(j + sum(1 + 2 * j for _ in range(k)) for _ in range(i)),
    "mm2": lambda i, j, k, l: sum(1 + 2 * k for _ in range(i * j)) + sum(2 + 2 * j for _ in range(i * l)),  # noqa: E741
    "mm3": lambda i, j, k, l, m: 2 * k * i * j + 2 * m * j * l + 2 * j * i * l,  # noqa: E741
    "symm": lambda i, j: sum(4 for _ in range(j) for _ in triangle(i)) + 6 * i * j,
    "syrk": lambda i, k: sum(row + 1 + sum(1 + 2 * (row + 1) for _ in range(k)) for row in range(i)),
    "trmm": lambda i, j: sum(1 + 2 * (i - row - 1) for row in range(i) for _ in range(j)),
    "gemver": lambda i: sum(4 * i + 2 * i + 3 + 2 * i + 2 for _ in range(i)),
    "mvt": lambda i: sum(2 * (2 * i + 1) for _ in range(i)),
    "atax": lambda i, j: sum(2 * j + 2 * j for _ in range(i)),
    "bicg": lambda i, j: sum(4 for _ in range(i) for _ in range(j)),
    "jacobi1d": lambda i, t: sum(3 for _ in range(2 * t) for _ in inner(i)),
    "jacobi2d": lambda i, t: sum(5 for _ in range(2 * t) for _ in inner(i) for _ in inner(i)),
    "fdtd2d": lambda i, j, t: t * (3 * j * len(range(1, i)) + 3 * i * len(range(1, j)) + 5 * (i - 1) * (j - 1)),
    "seidel2d": lambda i, t: sum(9 for _ in range(t) for _ in inner(i) for _ in inner(i)),
    "adi": lambda i, t: sum(11 + 2 for _ in range(2 * t) for _ in inner(i) for _ in inner(i)),
    "correlation": lambda i, k: i * (k + 1) + i * (3 * k + 2) + 3 * k * i + 2 * k * len(triangle(i)),
    "covariance": lambda i, k: i * (k + 1) + k * i + (2 * k + 1) * (len(triangle(i)) + i),
}
"""What each loop of the C code does, added up turn by turn."""


@every_kernel
@examples(25)
@given(data=st.data())
def test_the_operations_are_those_that_the_loops_make_turn_by_turn(kernel, data):
    sizes = data.draw(sizes_of(kernel))

    assert kernel.flops(sizes) == LOOPS[kernel.name](**sizes)


def test_bytes_count_each_array_read_and_each_changed_one_written_each_step():
    assert KERNELS["gemm"].bytes({"i": 2, "j": 3, "k": 5}) == 8 * (6 + 10 + 15 + 6)
    assert KERNELS["jacobi1d"].bytes({"i": 10, "t": 4}) == 4 * 8 * (10 + 10 + 10 + 10)
    assert KERNELS["mvt"].footprint({"i": 3}) == 8 * (9 + 4 * 3)


@pytest.mark.parametrize("size", SIZES)
@every_kernel
def test_every_size_names_all_dimensions_of_a_kernel(kernel, size):
    letters = {letter for letters in kernel.shapes.values() for letter in letters}

    assert letters <= set(kernel.sizes(size)) <= letters | {"t"}


def grid(*shape):
    return np.ones(shape)


@pytest.mark.parametrize(
    ("name", "arrays", "steps", "said"),
    [
        ("gemm", (grid(2, 3), grid(2, 5), grid(4, 3)), 1, "array B of gemm must have 5 in its dimension 0"),
        ("gemm", (grid(2, 3), grid(2, 5), grid(15)), 1, "array B of gemm must have 2 dimensions, got 1"),
        ("gemm", (grid(2, 3), grid(2, 5)), 1, "gemm takes the arrays C:ij A:ik B:kj, got 2"),
        ("syrk", (grid(2, 2), grid(2, 5), grid(1, 1)), 1, "syrk takes the arrays C:ii A:ik, got 3"),
        ("syrk", (grid(2, 3), grid(2, 5)), 1, "array C of syrk must have 2 in its dimension 1"),
        ("jacobi1d", (grid(0), grid(0)), 1, "array A of jacobi1d needs at least 1 in its dimension 0, got 0"),
        ("covariance", (grid(1, 3), grid(3, 3), grid(3)), 1, "array data of covariance needs at least 2"),
        ("jacobi1d", (grid(4).astype(np.float32), grid(4)), 1, "array A of jacobi1d must hold float64"),
        ("jacobi1d", (grid(4).astype(">f8"), grid(4)), 1, "must hold float64 numbers of this machine's byte order"),
        ("jacobi1d", (grid(4), grid(8)[::2]), 1, "array B of jacobi1d must be contiguous"),
        ("seidel2d", (grid(4, 5)[:, :4],), 1, "array A of seidel2d must be contiguous"),
        ("seidel2d", (np.asfortranarray(grid(4, 4)),), 1, "array A of seidel2d must be contiguous"),
        ("jacobi1d", (grid(4), np.broadcast_to(1.0, 1)), 1, "array B of jacobi1d must be writable"),
        ("jacobi1d", (grid(4), grid(4)), 0, "jacobi1d takes 1 step or more, got 0"),
        ("jacobi1d", (grid(4), grid(4)), -1, "jacobi1d takes 1 step or more, got -1"),
        ("fdtd2d", (grid(2, 3), grid(2, 3), grid(2, 3), grid(4)), 5, "array drive of fdtd2d must have 5"),
        ("gemm", (grid(2, 2), grid(2, 2), grid(2, 2)), 2, "gemm has no steps, got 2"),
        ("gem", (), 1, 'there is no kernel "gem"'),
    ],
)
def test_arrays_that_would_lead_outside_are_refused_by_name(name, arrays, steps, said):
    with pytest.raises(ValueError, match=said):
        _polybench.run(name, arrays, steps)


@every_kernel
def test_arrays_that_share_memory_are_refused(kernel):
    sizes = dict.fromkeys("ijklmt", 3)
    arrays = kernel.arrays(sizes)
    names = list(arrays)
    twins = [(one, other) for one, other in pairwise(names) if arrays[one].shape == arrays[other].shape]
    for one, other in twins:
        with pytest.raises(ValueError, match=f"of {kernel.name} share memory"):
            run(kernel, arrays | {other: arrays[one]}, 3 if "t" in kernel.small else 1)

    assert twins or names == ["A"]


def test_an_array_that_is_missing_is_named():
    with pytest.raises(ValueError, match=r"gemm needs the arrays C, A, B; not given: A"):
        run(KERNELS["gemm"], {"C": grid(1, 1), "B": grid(1, 1)})


def test_a_call_that_is_refused_leaves_the_arrays_free_and_unchanged():
    array = bytearray(8 * 4)

    with pytest.raises(ValueError, match="must hold float64"):
        _polybench.run("jacobi1d", (array, array), 1)

    array.append(0)
    assert not any(array)


def test_python_runs_on_while_a_kernel_does():
    ends = threading.Event()
    arrays = KERNELS["jacobi1d"].arrays({"i": 4000})
    thread = threading.Thread(target=lambda: (run(KERNELS["jacobi1d"], arrays, 100_000), ends.set()), daemon=True)

    thread.start()
    counted = sum(1 for _ in range(10_000))

    assert counted == 10_000
    assert not ends.is_set()
    thread.join()


@pytest.mark.parametrize("load", loads("small"), ids=lambda load: load.name)
def test_each_kernel_is_a_load_that_runs_at_least_once_and_says_what_it_did(load):
    work, total = load.prepare()(0.001)

    sizes = KERNELS[load.name].small
    assert work % KERNELS[load.name].flops(sizes) == 0
    assert work > 0
    assert np.isfinite(total)
    assert load.bytes == KERNELS[load.name].footprint(sizes)


def test_a_load_computes_the_same_however_often_it_is_called():
    gemm = next(load for load in loads("small") if load.name == "gemm").prepare()

    few, once = gemm(0.0001)
    for seconds in (0.05, 0.5, 5, 50):  # on a busy machine one call may take as long
        many, often = gemm(seconds)
        if many > few:
            break

    assert many > few
    assert often == once


def test_the_program_notices_a_call_that_gave_another_result():
    problems = program.make_problems("small")[:2]
    sums = program.call_all(problems, 2, 1)
    sums["gemm"][1] += 1

    with pytest.raises(WrongResultError, match="polybench's gemm gave another result in call 1"):
        program.check(problems, sums)


def test_the_program_notices_a_kernel_that_numpy_refutes():
    class Refuted(Kernel):
        def reference(self, arrays, steps=1):
            right = super().reference(arrays, steps)
            right["C"][1, 2] *= 1 + 1e-6
            return right

    (problem, *_) = program.make_problems("small")
    refuted = program.Problem(Refuted(**vars(problem.kernel)), problem.arrays, problem.steps)

    with pytest.raises(WrongResultError, match=r"polybench's gemm has .* in C\[1, 2\], NumPy says"):
        program.check([refuted], {"gemm": []})


def test_the_program_has_the_kernels_as_its_tasks():
    assert list(PROGRAMS["polybench"].tasks) == list(KERNELS)
    assert PROGRAMS["polybench"].instances("paper") == dict.fromkeys(KERNELS, 20)
