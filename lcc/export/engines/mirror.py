"""SWISH++, and whatever else indexes files: a folder of the cache's pages, under names that tell their URLs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lcc.commands.errors import Failed
from lcc.export.consumers import Command
from lcc.export.contents import Document
from lcc.export.pages import Page
from lcc.export.run import Job

SEGMENT_CHARS = 200
"""Of a name in the folder: file systems take 255 bytes."""
NAME_CHARS = 3500
"""Of a whole name: the system takes 4,096 bytes, the folder's own name included."""
MARK = ".lcc-export"
"""The file that says that a folder is a mirror: in no other are files removed."""
_SAFE = "=,;:~"
_MORE = "+"
"""Ends a segment that goes on in the next; in a URL it is quoted."""
_EMPTY = "%"
_LONG = "long"
_ENDINGS = {"html": ".html", "xml": ".xml", "text": ".txt", "other": ""}
_NAME = re.compile(r"\d+/([a-z][a-z0-9.-]*)/(.*)@[0-9a-f]{40}(?:\.html|\.xml|\.txt)?", re.DOTALL)


def file_name(row: Mapping[str, Any]) -> str:
    """Where a page lies below the folder: ``PROVIDER/SCHEME/HOST/PATH@KEY.html``.

    The name tells the URL (:func:`url_of`), no two pages have the same, and none is the folder of another.
    """
    page = Page.of(row)
    ending = f"@{page.key}{_ENDINGS[page.kind]}"
    scheme, _, rest = page.curl.partition("://")
    *folders, last = rest.split("/")
    parts = [str(page.pid), scheme]
    for folder in folders:
        parts += _segments(folder, 0)
    parts += _segments(last, len(ending))
    name = "/".join(parts) + ending
    return name if len(name) <= NAME_CHARS else f"{page.pid}/{_LONG}/{ending}"


def url_of(name: str) -> str | None:
    """The URL of a page by its name; None: it is no page's name, or that of a URL that is too long for one."""
    found = _NAME.fullmatch(name)
    if found is None or found[1] == _LONG:
        return None
    parts = found[2].replace(f"{_MORE}/", "").split("/")
    return f"{found[1]}://{'/'.join('' if part == _EMPTY else unquote(part) for part in parts)}"


def _segments(part: str, spare_chars: int) -> list[str]:
    # Nothing, "." and ".." have a meaning for file systems.
    text = quote(part, _SAFE) if part.strip(".") else "%2E" * len(part) or _EMPTY
    size = SEGMENT_CHARS - spare_chars
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return [f"{piece}{_MORE}" for piece in pieces[:-1]] + pieces[-1:]


class Mirror:
    """Keeps such a folder; then a command may index it.

    :param folder: it is made, or is empty, or has been a mirror before.
    :param command_for: gives the command for a mode; None: the folder is all that is wanted.
    :param all_types: also what is no text.
    """

    dated = False

    def __init__(self, folder: Path, command_for: Callable[[str], Command] | None, all_types: bool = False) -> None:
        self._folder = folder
        self._part = folder / f"{MARK}.part"
        self._command_for = command_for
        self.all_types = all_types

    def name_of(self, row: Mapping[str, Any]) -> str:
        return file_name(row)

    def wants(self, row: Mapping[str, Any]) -> bool:
        return self.all_types or Page.of(row).kind != "other"

    def hand_over(self, job: Job) -> None:
        try:
            self._open()
            for name in job.state.pending():
                page = job.state.shown(name)
                if page is None:
                    self._remove(name)
                    continue
                with job.contents.document(name, page) as document:
                    if document is not None:
                        self._write(name, document)
                    elif name not in job.contents.held_over:
                        self._remove(name)
            if job.full:
                self._sweep(job)
            os.sync()
        except OSError as error:
            raise Failed(
                str(error), "free some space, or choose another folder, and run the same command again"
            ) from None
        if self._command_for is not None:
            command = self._command_for(job.mode)
            try:
                command.start(subprocess.DEVNULL)
                command.close()
            except BaseException:
                command.abort()
                raise

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        mark = self._folder / MARK
        if not mark.exists():
            if any(self._folder.iterdir()):
                raise Failed(f"{self._folder} is neither empty nor a mirror of an LCC", "choose another folder")
            mark.write_text("lcc-export keeps this folder: what it did not write is removed.\n", encoding="ascii")

    def _write(self, name: str, document: Document) -> None:
        path = self._folder / name
        with self._part.open("wb") as file:
            for piece in document.plain():
                file.write(piece)
        if document.page.mtime is not None:
            os.utime(self._part, (document.page.mtime, document.page.mtime))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._part.rename(path)

    def _remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self._folder:
                return
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return  # others are in it

    def _sweep(self, job: Job) -> None:
        """Remove what an earlier state knew, and this one does not."""
        kept = {self._folder / MARK}
        for path in self._folder.rglob("*"):
            if path not in kept and not path.is_dir():
                name = str(path.relative_to(self._folder))
                if job.state.shown(name) is None:
                    self._remove(name)
