"""The kernels of linear algebra compute in place what they say, refuse other arrays, and let other threads run."""

import ctypes
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from tprof.benchmarks.programs import blas

from tprof.errors import TprofError

ORDERS = [1, 2, 7, 128]
ATTEMPTS = 100


def tile(order, seed=0):
    return np.asfortranarray(np.random.default_rng([order, seed]).random((order, order)))


def positive(order):
    factor = tile(order)
    return np.asfortranarray(factor @ factor.T + np.eye(order))


@pytest.mark.parametrize("order", ORDERS)
def test_a_factor_replaces_the_lower_half_and_leaves_the_upper(order):
    matrix = positive(order)
    here = matrix.copy(order="F")

    minor = blas.factor(here)

    assert minor == 0
    np.testing.assert_allclose(np.tril(here), np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-12)
    assert np.array_equal(np.triu(here, 1), np.triu(matrix, 1))


def test_a_tile_without_a_factor_is_told_by_its_minor():
    assert blas.factor(np.asfortranarray(np.diag([1.0, 4.0, -1.0, 1.0]))) == 3


@pytest.mark.parametrize("order", ORDERS)
def test_solving_undoes_a_product_with_the_transposed_factor(order):
    lower, wanted = np.asfortranarray(np.tril(tile(order)) + order * np.eye(order)), tile(order, 1)
    here = np.asfortranarray(wanted @ lower.T)

    blas.solve(lower, here)

    np.testing.assert_allclose(here, wanted, rtol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_a_square_is_subtracted_from_the_lower_half_only(order):
    left, before = tile(order), tile(order, 1)
    here = before.copy(order="F")

    blas.subtract_square(left, here)

    np.testing.assert_allclose(np.tril(here), np.tril(before - left @ left.T), rtol=1e-10, atol=1e-12)
    assert np.array_equal(np.triu(here, 1), np.triu(before, 1))


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_is_subtracted_with_its_right_side_transposed(order):
    left, right, before = (tile(order, seed) for seed in range(3))
    here = before.copy(order="F")

    blas.subtract_product(left, right, here)

    np.testing.assert_allclose(here, before - left @ right.T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (np.zeros((4, 4)), r"\(4, 4\) of float64"),
        (np.zeros((4, 4), np.float32, order="F"), r"\(4, 4\) of float32"),
        (np.zeros((4, 3), order="F"), r"\(4, 3\) of float64"),
        (np.zeros((8, 4), order="F")[:4], r"\(4, 4\) of float64"),
    ],
    ids=["C order", "single precision", "no square", "part of a matrix"],
)
def test_an_array_that_is_no_tile_is_refused(wrong, said):
    with pytest.raises(ValueError, match=f"a square of doubles in Fortran's order, got {said}"):
        blas.factor(wrong)


def test_tiles_of_different_orders_are_refused():
    with pytest.raises(ValueError, match="tiles of one order, got orders 4, 5"):
        blas.subtract_square(tile(5), tile(4))


def test_a_routine_with_integers_of_another_width_is_refused():
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"void (char *, int64_t *)"
    library = SimpleNamespace(__pyx_capi__={"dpotrf": make(1, name, None)})

    with pytest.raises(TprofError, match=r"takes a 'int64_t \*', tprof gives it C's int and double"):
        blas.find(library, "dpotrf")


@pytest.mark.parametrize(
    "kernel",
    [
        lambda lower, _: blas.factor(lower),
        blas.solve,
        blas.subtract_square,
        lambda lower, here: blas.subtract_product(lower, lower, here),
    ],
    ids=["factor", "solve", "subtract_square", "subtract_product"],
)
@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no lock to release")
def test_another_thread_runs_while_a_kernel_does(kernel):
    """With threads switched only where one gives the lock up, another sees a kernel from inside if that does."""
    lower, here = np.asfortranarray(np.eye(600)), tile(600)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        # The other thread may come too late for one call, but not for all of them.
        seen = any(saw_inside(lambda: kernel(lower, here)) for _ in range(ATTEMPTS))
    finally:
        sys.setswitchinterval(interval)

    assert seen


def saw_inside(call):
    begun, done = threading.Event(), threading.Event()

    def work():
        begun.set()
        call()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    inside = not done.is_set()
    thread.join()
    return inside
