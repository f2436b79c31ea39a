"""Counts words of made-up pages: 300,000 calls of three small functions."""

import random


def page(number):
    chance = random.Random(number)
    return [chance.choice(WORDS) for _ in range(40)]


def counted(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def best(counts):
    return max(counts, key=counts.get)


WORDS = ["joule", "watt", "second", "core", "task"]


def main():
    print(sorted({best(counted(page(number))) for number in range(100_000)}))


if __name__ == "__main__":
    main()
