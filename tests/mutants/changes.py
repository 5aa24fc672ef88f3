"""The changes that are planted in a file, one at a time."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
METHODS = {
    "startswith": "endswith",
    "endswith": "startswith",
    "lower": "upper",
    "upper": "lower",
    "partition": "rpartition",
    "rpartition": "partition",
    "find": "rfind",
    "rfind": "find",
    "lstrip": "strip",
    "rstrip": "strip",
    "popleft": "pop",
    "appendleft": "append",
}
SQL = {
    " AND ": " OR ",
    " OR ": " AND ",
    " < ": " <= ",
    " <= ": " < ",
    " > ": " >= ",
    " >= ": " > ",
    " <> ": " = ",
    " DESC": " ASC",
    "MIN(": "MAX(",
    "MAX(": "MIN(",
    " NOT NULL": " NULL",
    " IS NULL": " IS NOT NULL",
    " + 1": " + 2",
}
"""Changes within statements of SQL."""
_WHERE_EQUAL = re.compile(r"\bWHERE\b.*?( = )", re.DOTALL)
_IS_SQL = re.compile(r"\b(SELECT|UPDATE|DELETE|INSERT|WHERE|ORDER BY)\b").search
_QUANTIFIERS = re.compile(r"(?<=[\])\w.])(?:[+*?]|\{\d+(?:,\d*)?\})")
_SILENT = frozenset({"debug", "info", "warn", "warning", "error", "critical", "failure", "emit"})
"""Methods whose texts are for people."""
_LEFT_OUT = (ast.Raise, ast.Expr, ast.AugAssign, ast.Delete)
"""Statements that are left out themselves."""
_PROSE = re.compile(r"\S \S+ \S").search
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "ctx", "bases"})


class Mutant(NamedTuple):
    """A change of a file.

    :ivar key: names it also when lines have moved: the file, the function, what stands there, what is put there.
    :ivar number: which change of its file it is, from 0.
    :ivar line: where it is.
    :ivar last_line: the end of what is changed.
    :ivar function: the outermost function around it, name and line; None: it is executed when the module is imported.
    """

    key: str
    number: int
    line: int
    last_line: int
    function: tuple[str, int] | None


class _Site(NamedTuple):
    """A node, and how it is reached."""

    parent: ast.AST
    field: str
    position: int | None
    node: ast.AST
    names: tuple[str, ...]
    function: tuple[str, int] | None
    statement: ast.stmt
    for_people: bool

    def put(self, node: ast.AST) -> None:
        """Put another node in its place."""
        ast.copy_location(node, self.node)
        if self.position is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.position] = node


def mutants(path: str, source: str) -> list[Mutant]:
    """All changes of a file, in its order."""
    found: list[Mutant] = []
    seen: Counter[str] = Counter()
    for number, (site, new) in enumerate(_changes(ast.parse(source))):
        name = ".".join(site.names) or "(module)"
        key = f"{path}:{name}: {_shown(site.node)} -> {_shown(new)}"
        seen[key] += 1
        if seen[key] > 1:
            key += f" #{seen[key]}"
        line = getattr(site.node, "lineno", site.statement.lineno)
        last_line = getattr(site.node, "end_lineno", None) or line
        found.append(Mutant(key, number, line, last_line, site.function))
    return found


def changed(source: str, number: int) -> ast.Module:
    """The file with one of its changes."""
    tree = ast.parse(source)
    for here, (site, new) in enumerate(_changes(tree)):
        if here == number:
            site.put(new)
            return ast.fix_missing_locations(tree)
    raise ValueError(f"there is no change {number}")


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.If | ast.While):
        return f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())


def _changes(tree: ast.Module) -> Iterator[tuple[_Site, ast.AST]]:
    for site in _sites(tree, (), None, None, False):
        for new in _instead(site):
            yield site, new


def _sites(
    parent: ast.AST,
    names: tuple[str, ...],
    function: tuple[str, int] | None,
    statement: ast.stmt | None,
    for_people: bool,
) -> Iterator[_Site]:
    for field, value in ast.iter_fields(parent):
        if field in _SKIPPED_FIELDS:
            continue
        for position, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(node, ast.AST) or _is_skipped(node) or (for_people and isinstance(node, ast.JoinedStr)):
                continue
            here = node if isinstance(node, ast.stmt) else statement
            assert here is not None
            people = for_people or isinstance(node, ast.Raise) or _is_log(node)
            yield _Site(parent, field, position, node, names, function, here, people)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*names, node.name)
                if isinstance(node, ast.ClassDef) or function is not None:
                    yield from _sites(node, inner, function, here, people)
                    continue
                # Defaults are reckoned when the function is defined.
                yield from _sites(node.args, inner, None, here, people)
                line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                body = ast.Module(node.body, [])
                for found in _sites(body, inner, (".".join(inner), line), here, people):
                    # The list is the function's own.
                    yield found._replace(parent=node) if found.parent is body else found
            else:
                yield from _sites(node, names, function, here, people)


def _is_skipped(node: ast.AST) -> bool:
    """What has no effect when it runs, or is for people and machines that check."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # documentation
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return any(isinstance(name, ast.Name) and name.id in ("__all__", "__slots__") for name in node.targets)
    return isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.expr_context)


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _SILENT
        and "log" in ast.unparse(node.func.value)
    )


def _instead(site: _Site) -> Iterator[ast.AST]:
    node = site.node
    if isinstance(node, ast.Compare):
        yield from _comparisons(node)
    elif isinstance(node, ast.BoolOp):
        for left_out in range(len(node.values)):
            rest = [value for place, value in enumerate(node.values) if place != left_out]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        other = OPERATORS.get(type(node.op))
        if other is not None and not _is_union(node):
            yield _copy(node, op=other())
        if isinstance(node, ast.AugAssign):
            yield ast.Pass()
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        if not isinstance(node.test, ast.Compare | ast.UnaryOp | ast.BoolOp):
            yield _copy(node, test=ast.UnaryOp(ast.Not(), node.test))
        if isinstance(node, ast.If) and not node.orelse and not isinstance(node.body[0], _LEFT_OUT):
            yield ast.Pass()
    elif isinstance(node, ast.comprehension):
        for left_out in range(len(node.ifs)):
            yield _copy(node, ifs=node.ifs[:left_out] + node.ifs[left_out + 1 :])
    elif isinstance(node, ast.Constant):
        yield from _constants(site, node)
    elif isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Expr):
        if not site.for_people and not _is_log(node.value) and not isinstance(node.value, ast.Yield | ast.YieldFrom):
            yield ast.Pass()
    elif isinstance(node, ast.Assign):
        if all(isinstance(name, ast.Attribute | ast.Subscript) for name in node.targets):
            yield ast.Pass()
    elif isinstance(node, ast.Raise | ast.Delete):
        yield ast.Pass()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Slice):
        for bound in ("lower", "upper", "step"):
            if getattr(node, bound) is not None:
                yield _copy(node, **{bound: None})
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for place, operator in enumerate(node.ops):
        for other in COMPARISONS[type(operator)]:
            yield _copy(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])


def _constants(site: _Site, node: ast.Constant) -> Iterator[ast.AST]:
    value: Any = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        if value > 1:
            yield ast.Constant(value - 1)
    elif isinstance(value, bytes):
        yield ast.Constant(value + b"~")
    elif isinstance(value, str) and not site.for_people:
        if _is_pattern(site):
            for match in _QUANTIFIERS.finditer(value):
                other = {"+": "*", "*": "+", "?": ""}.get(match[0], "*")
                yield ast.Constant(value[: match.start()] + other + value[match.end() :])
        elif _IS_SQL(value):
            yield from _statements(value)
        elif not isinstance(site.parent, ast.JoinedStr) and not _PROSE(value):
            yield ast.Constant(value + "~")


def _is_pattern(site: _Site) -> bool:
    above = site.parent
    return isinstance(above, ast.Call) and ast.unparse(above.func) in (
        "re.compile",
        "re.fullmatch",
        "re.match",
        "re.sub",
    )


def _statements(value: str) -> Iterator[ast.AST]:
    for old, new in SQL.items():
        for match in re.finditer(re.escape(old), value):
            yield ast.Constant(value[: match.start()] + new + value[match.end() :])
    for match in _WHERE_EQUAL.finditer(value):
        yield ast.Constant(value[: match.start(1)] + " <> " + value[match.end(1) :])


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in NAMES:
        yield _copy(node, func=ast.Name(NAMES[function.id], ast.Load()))
    elif isinstance(function, ast.Attribute):
        if function.attr in METHODS:
            yield _copy(node, func=ast.Attribute(function.value, METHODS[function.attr], ast.Load()))
        elif function.attr == "strip" and not node.args:
            yield function.value


def _is_union(node: ast.BinOp | ast.AugAssign) -> bool:
    """A type, ``int | None``, as in isinstance."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitOr)
        and any(ast.unparse(side) in ("None", "int", "str", "bytes", "float") for side in (node.left, node.right))
    )


def _copy(node: Any, **instead: Any) -> ast.AST:
    fields = {name: getattr(node, name, None) for name in node._fields}
    new: ast.AST = type(node)(**{**fields, **instead})
    return ast.copy_location(new, node) if hasattr(node, "lineno") else new
