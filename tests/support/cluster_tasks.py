"""Tasks that the workers of a cluster import."""

import os
import time
from pathlib import Path

from tprof.runtime import current

import tprof


@tprof.task(updates="tile")
def add(tile, number):
    tile += number


@tprof.task(reads=("left", "right"), writes="result")
def multiply(left, right, result):
    result[...] = left @ right


@tprof.task(reads="tiles", updates="total")
def add_all(tiles, total):
    for tile in tiles:
        total += tile


@tprof.task(updates=("left", "right"))
def swap(left, right):
    kept = left.copy()
    left[...] = right
    right[...] = kept


@tprof.task(updates="tile")
def fail(tile):
    tile += 1000
    raise ValueError("no luck")


@tprof.task(reads="tile")
def total_of(tile):
    return float(tile.sum())


@tprof.task
def double(number):
    return 2 * number


@tprof.task(updates="handle")
def append(handle, path, text):
    assert handle == "file"
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


@tprof.task
def fibonacci(number):
    if number < 2:
        return number
    below = fibonacci(number - 1), fibonacci(number - 2)
    current().wait()
    return below[0].result() + below[1].result()


@tprof.task(updates="tile")
def wait_for_file(tile, path):
    while not os.path.exists(path):
        time.sleep(0.01)
    tile += 1


@tprof.task(reads="tile")
def end_process_once(tile, path):
    if not os.path.exists(path):
        Path(path).touch()
        os._exit(1)
    return "survived" if tile is None else tile


@tprof.task(updates="tile")
def busy(tile, seconds):
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        tile += 1


@tprof.task
def is_none(value):
    return value is None
