"""What Sphinx does not know of our docstrings.

* ``.. interface:: lcc.interfaces.IFetcher`` describes a zope interface, its attributes and methods, as classes are.
* ``:ivar a, b: text`` describes two attributes.
* A type that is an interface is written by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from zope.interface.interface import InterfaceClass, Method

_SEVERAL = re.compile(r"^:(ivar|param) (\w+(?:, \w+)+):")
_INTERFACE = re.compile(r"<InterfaceClass ([\w.]+)>")


class InterfaceDirective(SphinxDirective):
    """Takes the full name of an interface."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """As text, which is parsed as if it stood there."""
        module, _, name = self.arguments[0].rpartition(".")
        lines = list(describe(module, getattr(import_module(module), name)))
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(StringList(lines, source=self.arguments[0]), self.content_offset, holder)
        return holder.children


def describe(module: str, interface: InterfaceClass) -> Iterator[str]:
    """The lines of reStructuredText."""
    bases = ", ".join(base.__name__ for base in interface.__bases__ if base.__name__ != "Interface")
    yield f".. py:class:: {interface.__name__}{f'({bases})' if bases else ''}"
    yield f"   :module: {module}"
    yield ""
    yield from _indented(interface.__doc__, "   ")
    for name, member in interface.namesAndDescriptions():
        kind = "method" if isinstance(member, Method) else "attribute"
        signature = member.getSignatureString() if isinstance(member, Method) else ""
        yield f"   .. py:{kind}:: {name}{signature}"
        yield ""
        yield from _indented(member.__doc__, "      ")


def _indented(text: str, indent: str) -> Iterator[str]:
    for line in cleandoc(text or "").splitlines():
        yield indent + line if line else ""
    yield ""


def one_by_one(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Give each attribute a field of its own."""
    told: list[str] = []
    position = 0
    while position < len(lines):
        end = position + 1
        if several := _SEVERAL.match(lines[position]):
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            for each in several[2].split(", "):
                told += [f":{several[1]} {each}:{lines[position][several.end() :]}", *lines[position + 1 : end]]
        else:
            told.append(lines[position])
        position = end
    lines[:] = told


def by_name(
    _app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, signature: str | None, gives: str | None
) -> tuple[str | None, str | None]:
    """Interfaces in a signature by their names."""
    return signature and _INTERFACE.sub(r"\1", signature), gives and _INTERFACE.sub(r"\1", gives)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("interface", InterfaceDirective)
    app.connect("autodoc-process-docstring", one_by_one)
    app.connect("autodoc-process-signature", by_name)
    return {"parallel_read_safe": True}
