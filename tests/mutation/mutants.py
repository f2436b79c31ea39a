"""The mutants of a module: its source with one small fault each, as a programmer might make it.

mutmut and cosmic-ray change files of a source folder and start Python anew for each mutant, which takes seconds where
pandas and SciPy are imported. Their operators also rarely change what array code is made of: calls, keywords and
assignments to parts of arrays.
"""

from __future__ import annotations

import ast
import copy
import difflib
import random
from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr, ast.MatMult: ast.Mult,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
PAIRS = [
    ("min", "max"), ("minimum", "maximum"), ("any", "all"), ("argmin", "argmax"), ("floor", "ceil"),
    ("left", "right"), ("ones", "zeros"), ("logical_and", "logical_or"), ("first", "last"), ("append", "extend"),
    ("add", "discard"), ("union", "intersection"), ("startswith", "endswith"), ("nanmin", "nanmax"),
]  # fmt: skip
OTHERS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])} | {"sum": "max"}


@dataclass(frozen=True)
class Mutant:
    """A changed source of a module.

    Attributes
    ----------
    path : of the module's file, below the checkout
    lines : first and last line of the statement that is changed, without the body of a compound one
    original, source : the whole source, as it is and changed
    diff : what is changed
    """

    path: str
    lines: tuple[int, int]
    original: str
    source: str
    diff: str

    @property
    def identity(self) -> tuple[str, ...]:
        """The path and what is changed, wherever in the file it is."""
        return self.path, *self.diff.splitlines()[3:]

    def changed(self, sign: str) -> str:
        """Return the lines that are changed, before (-) or after (+), without what they are indented by."""
        return "\n".join(line[1:].strip() for line in self.diff.splitlines()[2:] if line.startswith(sign))


@dataclass(frozen=True)
class _Site:
    node: ast.AST
    changed: tuple[ast.AST, ...]
    lines: tuple[int, int]


def mutants_of(sources: Mapping[str, str], *, seed: int) -> Iterator[Mutant]:
    """Yield mutants of modules, by path, in random order, each at a place of its own.

    They are the same for the same sources and seed, and in a module that has not changed also if others have.
    """
    drawn = []
    for path, source in sources.items():
        alike: Counter[str] = Counter()
        for site in _sites(ast.parse(source)):
            text = ast.dump(site.node)
            chance = random.Random(f"{seed} {path} {text} {alike[text]}")  # noqa: S311 - not for secrets
            alike[text] += 1
            drawn.append((chance.random(), path, site, chance.choice(site.changed)))
    for _, path, site, changed in sorted(drawn, key=itemgetter(0)):
        mutant = _mutant(path, sources[path], site, changed)
        if mutant is not None:
            yield mutant


def _mutant(path: str, source: str, site: _Site, changed: ast.AST) -> Mutant | None:
    """Return the mutant, None if it is the same as the source, or nothing that Python understands."""
    start, stop = _span(source, site.node)
    whole = source.encode()
    text = ast.unparse(changed)
    if text == ast.unparse(site.node):
        return None
    if isinstance(changed, ast.expr) and not isinstance(changed, (ast.Constant, ast.Name, ast.Attribute, ast.Call)):
        text = f"({text})"
    mutated = (whole[:start] + text.encode() + whole[stop:]).decode()
    try:
        compile(mutated, path, "exec")
    except SyntaxError:
        return None
    lines = difflib.unified_diff(source.splitlines(), mutated.splitlines(), f"a/{path}", f"b/{path}", n=1, lineterm="")
    return Mutant(path, site.lines, source, mutated, "\n".join(lines))


def _span(source: str, node: ast.AST) -> tuple[int, int]:
    """Return where a node begins and ends in the source, in bytes of UTF-8."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _sites(node: ast.AST, lines: tuple[int, int] = (1, 1)) -> Iterator[_Site]:
    """Yield what may change below a node; texts, types, decorators and what an error says stay."""
    if isinstance(node, ast.stmt):
        lines = _lines(node)
    changed = tuple(_changed(node))
    if changed:
        yield _Site(node, changed, lines)
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "exc", "cause"} or _is_for_types(node):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _sites(child, lines)


def _lines(statement: ast.stmt) -> tuple[int, int]:
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
    return statement.lineno, last or statement.lineno


def _is_for_types(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.Call(func=ast.Name(id="cast" | "TypeVar")):
            return True
    return False


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    if isinstance(node, ast.stmt):
        yield from _changed_statement(node)
    elif isinstance(node, ast.expr):
        yield from _changed_expression(node)


def _changed_statement(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Yield()) | ast.Raise() | ast.Break() | ast.Continue() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield ast.Pass()
        case ast.AugAssign():
            yield ast.Pass()
            if type(node.op) in ARITHMETIC:
                yield _with(node, op=ARITHMETIC[type(node.op)]())


def _changed_expression(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp():
            yield _with(node, op=ARITHMETIC[type(node.op)]())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp():
            yield node.operand
        case ast.Compare(ops=[op, *others]):
            for other in COMPARISONS[type(op)]:
                yield _with(node, ops=[other(), *others])
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Constant():
            yield from _changed_constant(node)
        case _:
            yield from _changed_names(node)


def _changed_names(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Call():
            for place in range(len(node.keywords)):
                yield _with(node, keywords=node.keywords[:place] + node.keywords[place + 1 :])
        case ast.Attribute() if node.attr in OTHERS:
            yield _with(node, attr=OTHERS[node.attr])
        case ast.Name() if node.id in OTHERS:
            yield _with(node, id=OTHERS[node.id])


def _changed_constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value > 0:
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)
    elif isinstance(value, str) and value in OTHERS:
        yield ast.Constant(OTHERS[value])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other
