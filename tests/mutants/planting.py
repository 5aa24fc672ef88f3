"""Plants a changed file in this process: in modules that are imported already, or are imported from now on."""

from __future__ import annotations

import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType


def module_name(path: str) -> str:
    """``lcc/domain/fetches/hours.py`` -> ``lcc.domain.fetches.hours``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._tree, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, path: str, root: Path, tree: ast.Module) -> None:
        self._name = module_name(path)
        self._loader = _Loader(self._name, str(root / path), tree)

    def find_spec(
        self, name: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._loader.path, loader=self._loader)


def plant_before_import(path: str, root: Path, tree: ast.Module) -> None:
    """The module will be the changed one.  It must not be imported yet."""
    assert module_name(path) not in sys.modules
    sys.meta_path.insert(0, _Finder(path, root, tree))


def plant_in_functions(path: str, root: Path, tree: ast.Module, function: tuple[str, int]) -> bool:
    """Give all functions made of an outermost one, itself and those within it, the code of the changed file.

    :param function: its qualified name, and its first line.
    :returns: whether there are any, and all could be changed.
    """
    file = str(root / path)
    codes = {
        (code.co_qualname, code.co_firstlineno): code
        for outermost in _codes(compile(tree, file, "exec"))
        if (outermost.co_qualname, outermost.co_firstlineno) == function
        for code in (outermost, *_codes(outermost))
    }
    planted = False
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename == file:
            code = codes.get((thing.__code__.co_qualname, thing.__code__.co_firstlineno))
            if code is not None:
                if len(code.co_freevars) != len(thing.__code__.co_freevars):
                    return False
                thing.__code__ = code
                planted = True
    return planted


def plant_constant(path: str, tree: ast.Module, line: int) -> bool:
    """Give a constant of a module, and what the module makes of it on import, the values of the changed file.

    :param line: where the change is.
    :returns: whether it is such a constant, which only this module knows.
    """
    module = sys.modules.get(module_name(path))
    here = [number for number, each in enumerate(tree.body) if each.lineno <= line <= (each.end_lineno or 0)]
    if module is None or len(here) != 1 or not _constants_of(tree.body[here[0]]):
        return False
    statements = [tree.body[here[0]]]
    names = set(_constants_of(statements[0]))
    for statement in tree.body[here[0] + 1 :]:
        if names.isdisjoint(_used_on_import(statement)):
            continue
        if not _constants_of(statement):
            return False
        statements.append(statement)
        names.update(_constants_of(statement))
    known = vars(module)
    others = [vars(other) for other in list(sys.modules.values()) if other is not module]
    if not all(name in known and all(other.get(name) is not known[name] for other in others) for name in names):
        return False
    exec(compile(ast.Module(statements, []), path, "exec"), known)
    return True


def _constants_of(statement: ast.stmt) -> list[str]:
    """The names that it gives a value, if it does nothing else."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    else:
        return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _used_on_import(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and field == "body":
            continue
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, ast.AST):
                yield from _used_on_import(each)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
