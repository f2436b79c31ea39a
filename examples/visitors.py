"""Visitors of the shop: 8 at a time ask for products, searches and what is similar, 600 times in all."""

import itertools
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

SHOP = f"http://127.0.0.1:{sys.argv[1]}"


def wait_until_open():
    for _ in range(300):
        try:
            return ask("/product/0")
        except urllib.error.URLError:
            time.sleep(0.1)
    sys.exit(f"nobody answers at {SHOP}")


def ask(path):
    with urllib.request.urlopen(SHOP + path, timeout=30) as answer:
        return len(answer.read())


def main():
    wait_until_open()
    kinds = ["/product/{}", "/similar/{}", "/product/{}", "/search/red%20chair%20{}"]
    paths = [kind.format(number) for kind, number in zip(itertools.cycle(kinds), range(600))]
    with ThreadPoolExecutor(8) as visitors:
        print(sum(visitors.map(ask, paths)), "bytes in", len(paths), "answers")


if __name__ == "__main__":
    main()
