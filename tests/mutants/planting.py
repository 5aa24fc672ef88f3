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
    """``lcc/domain/hours.py`` -> ``lcc.domain.hours``."""
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


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
