"""The orders in which tasks may run that depend on each other by the arrays they share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from tprof.benchmarks.programs.adjoining import join


@dataclass(frozen=True)
class Call:
    """A task instance that was asked for, and what it reads and changes."""

    kernel: Callable[..., object]
    arguments: tuple[object, ...]
    reads: tuple[np.ndarray, ...]
    changes: tuple[np.ndarray, ...]

    def must_follow(self, other: "Call") -> bool:
        """Say whether it reads what the other changes, or changes what the other touches."""
        pairs = [(mine, theirs) for mine in self.reads for theirs in other.changes]
        pairs += [(mine, theirs) for mine in self.changes for theirs in (*other.reads, *other.changes)]
        return any(np.shares_memory(mine, theirs) for mine, theirs in pairs)


def collect(monkeypatch, module, tasks: Mapping[str, tuple[Iterable[int], Iterable[int]]]) -> list[Call]:
    """Make the module's tasks note their calls instead; `tasks` are the positions of what each reads and changes."""
    calls: list[Call] = []
    for name, (reads, changes) in tasks.items():
        monkeypatch.setattr(module, name, _note(calls, getattr(module, name).__wrapped__, tuple(reads), tuple(changes)))
    return calls


def _note(calls, kernel, reads, changes):
    def note(*arguments):
        read, changed = ([_whole(arguments[index]) for index in indices] for indices in (reads, changes))
        calls.append(Call(kernel, arguments, tuple(read), tuple(changed)))

    return note


def _whole(argument):
    """Return what a list of blocks covers, which stand side by side or one behind the other."""
    if not isinstance(argument, list):
        return argument
    return join(argument, axis=argument[0].ndim - 1)


def run_in_some_order(calls: list[Call], seed: int) -> None:
    """Run the calls in an order drawn from those in which each comes after the earlier ones that it must follow."""
    source = np.random.default_rng(seed)
    waits = [{i for i in range(at) if call.must_follow(calls[i])} for at, call in enumerate(calls)]
    left = set(range(len(calls)))
    while left:
        chosen = int(source.choice([at for at in sorted(left) if not waits[at] & left]))
        calls[chosen].kernel(*calls[chosen].arguments)
        left.remove(chosen)
