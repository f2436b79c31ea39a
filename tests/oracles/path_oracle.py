"""A slow, obvious critical path: every chain of a small graph, one after the other."""

from __future__ import annotations


def chains(waits_for):
    """Yield every chain that ends in each node: `waits_for[i]` are the nodes before node i."""

    def ending_in(node):
        yield (node,)
        for before in waits_for[node]:
            for chain in ending_in(before):
                yield (*chain, node)

    for node in range(len(waits_for)):
        yield from ending_in(node)


def longest(weights, waits_for):
    """Return the greatest sum of weights along a chain."""
    return max((sum(weights[node] for node in chain) for chain in chains(waits_for)), default=0)
