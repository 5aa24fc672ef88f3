"""Writes a real documentation tree to publish: the standard library's, by pydoc, a page for each module.

``python pages.py FOLDER PART PARTS`` writes every PARTS-th page.  It runs in a process of its own, because it imports
whatever it documents.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import pydoc
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

# What opens windows, prints poems or needs what a small system lacks when it is merely imported.
LEFT_OUT = frozenset({"antigravity", "idlelib", "lib2to3", "pip", "test", "this", "tkinter", "turtle", "turtledemo"})


def modules(folder: str, prefix: str = "") -> Iterator[str]:
    """The names of all modules under a folder."""
    for found in sorted(pkgutil.iter_modules([folder]), key=lambda module: module.name):
        if found.name in LEFT_OUT or found.name.startswith(("__", "_sysconfigdata")) or found.name == "tests":
            continue
        yield prefix + found.name
        if found.ispkg:
            yield from modules(f"{folder}/{found.name}", f"{prefix}{found.name}.")


def main() -> None:
    target, part, parts = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    names = list(modules(sysconfig.get_path("stdlib")))
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    for name in names[part::parts]:
        try:
            module = importlib.import_module(name)
            page = pydoc.html.page(name, pydoc.html.document(module, name))
        except (Exception, SystemExit):
            continue  # not for this platform
        # A folder for each package, as sites have them.
        path = target.joinpath(*name.split(".")[:-1], name.rpartition(".")[2] + ".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8", errors="replace")
    os._exit(0)  # whatever threads or hooks the modules have left


if __name__ == "__main__":
    main()
