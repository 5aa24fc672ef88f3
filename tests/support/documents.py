"""The fenced blocks of a page, and what comments before them say of them.

A comment (``<!-- … -->``) on the lines just before a block is for who plays the page:

* ``not run: REASON`` -- it cannot be run here.  These are counted.
* ``run by PATH`` -- that test does all of this, with what it needs.
* ``file NAME`` -- its text is written to that file first; ``more of NAME``: at its end.
* ``do COMMAND`` -- that command is run before; ``until COMMAND``: and this one is tried until it succeeds.
* ``shell NAME`` -- it is for that shell only.
* ``world NAME`` -- anywhere in a page: what is there before its first command (:mod:`tests.documents.worlds`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "doc").glob("*.md"))]

_FENCE = re.compile(
    r"((?:^ *<!--(?:(?!-->).)*-->\n)*)^( *)```([\w+-]+)([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL
)
_ANY_FENCE = re.compile(r"^( *)```([^\s`]*)[^\n`]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_MARK = re.compile(r"(not run:|run by|file|more of|do|until|shell)\s+(.*)", re.DOTALL)
COMMANDS = frozenset({"sh", "console"})
"""Kinds of blocks that are commands."""


@frozen
class Block:
    """
    :ivar kind: the language that its fence names.
    :ivar more: what else stands behind that.
    :ivar line: of its fence in the page, from 1.
    :ivar marks: what comments before it say: name and texts.
    """

    page: Path
    line: int
    kind: str
    more: str
    text: str
    marks: dict[str, list[str]] = field(factory=dict)

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def left_out(self) -> str:
        """Why who plays the page leaves it out; empty: it is run."""
        return " ".join(self.marks.get("not run:", []) + self.marks.get("run by", []))


def blocks_of(page: Path, *kinds: str) -> list[Block]:
    """All blocks of a page, or those of these kinds."""
    return list(_blocks(page, page.read_text(encoding="utf-8"), kinds))


def fences_of(page: Path) -> list[tuple[int, str, str]]:
    """Line, language (empty: none is named) and text of all fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 1, found[2], found[3]) for found in _ANY_FENCE.finditer(text)]


def world_of(page: Path) -> str:
    """What the page wants to be there; empty: it does not say."""
    found = re.search(r"<!-- world (.*?) -->", page.read_text(encoding="utf-8"))
    return found[1] if found else ""


def _blocks(page: Path, text: str, kinds: tuple[str, ...]) -> Iterator[Block]:
    for found in _FENCE.finditer(text):
        before, indent, kind, more, body = found.groups()
        if kinds and kind not in kinds:
            continue
        marks: dict[str, list[str]] = {}
        for name, said in filter(None, map(_mark, _COMMENT.findall(before))):
            marks.setdefault(name, []).append(said)
        line = text.count("\n", 0, found.start(2)) + 1
        body = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        yield Block(page, line, kind, more.strip(), body, marks)


def _mark(comment: str) -> tuple[str, str] | None:
    found = _MARK.fullmatch(comment.strip())
    return (found[1], " ".join(found[2].split())) if found else None
