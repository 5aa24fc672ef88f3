"""Files and their ``<url>`` containers.

File names are bytes throughout: whatever a file is called, its URL is valid.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from hashlib import md5
from typing import IO
from urllib.parse import quote_from_bytes

import attrs

from lcc.commands.errors import Trouble
from lcc.provider.mimetable import MimeTable

_READ_BYTES = 262_144
# What RFC 3986 allows in a path segment, but for the colon: "a:b" would read as scheme and path.
_SAFE = "/!$&'()*+,;=@~"
_FIND_GLOBALS = {
    b"-depth": 0,
    b"-d": 0,
    b"-daystart": 0,
    b"-follow": 0,
    b"-ignore_readdir_race": 0,
    b"-noignore_readdir_race": 0,
    b"-maxdepth": 1,
    b"-mindepth": 1,
    b"-mount": 0,
    b"-noleaf": 0,
    b"-nowarn": 0,
    b"-regextype": 1,
    b"-warn": 0,
    b"-xdev": 0,
}
_FIND_OUTPUT = {b"-print", b"-print0", b"-printf", b"-ls"}


class ListingFault(Trouble):
    """The list of files cannot be made, or is not complete."""

    usually = "check that the folder exists and is readable, and the messages of find; then run the pipeline again"


class Skipped(Exception):
    """This file has no container; the text says why.

    :ivar kind: ``vanished``, ``folder``, ``not-a-file`` or ``untyped``.
    """

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(text)


@attrs.frozen
class Listed:
    """A file that was listed.

    :ivar path: where it can be opened.
    :ivar relative: its name below the docroot.
    """

    path: bytes
    relative: bytes


def find_command(docroot: bytes, arguments: Sequence[bytes]) -> list[bytes]:
    """The ``find`` that lists the files of a docroot.

    The user's expression stands in parentheses, so that ``-name a -o -name b`` means what it says; find's global
    options (``-maxdepth``) are put in front of it, where they belong.

    :raises ListingFault: the expression would print by itself.
    """
    front: list[bytes] = []
    rest = list(arguments)
    while rest and rest[0] in _FIND_GLOBALS:
        take = 1 + _FIND_GLOBALS[rest[0]]
        front += rest[:take]
        del rest[:take]
    for argument in rest:
        if argument in _FIND_OUTPUT:
            raise ListingFault(f"{argument.decode()} cannot be used: file2url prints the files itself", "remove it")
    start = b"./" + docroot if docroot.startswith(b"-") else docroot
    expression = [b"(", *rest, b")"] if rest else []
    # -H: a docroot that is a symbolic link is that which it leads to.
    return [b"find", b"-H", start, *front, *expression, b"-type", b"f", b"-print0"]


def found(docroot: bytes, arguments: Sequence[bytes]) -> Iterator[Listed]:
    """The files that ``find`` finds, as it finds them.

    :raises ListingFault: find cannot be run, or (after the last file) it says that it failed.
    """
    command = find_command(docroot, arguments)
    start = command[2]
    if not os.path.isdir(docroot):  # noqa: PTH112  (bytes)
        what = "is not a folder" if os.path.lexists(docroot) else "does not exist"
        raise ListingFault(f"--find: {os.fsdecode(docroot)} {what}")
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    except OSError as error:
        raise ListingFault(
            f"cannot run find: {error.strerror}", "install findutils, or list the files on standard input"
        ) from None
    assert process.stdout is not None
    with process:
        try:
            for path in split_names(process.stdout, b"\0"):
                relative = path[len(start) :].lstrip(b"/") if path.startswith(start) else path
                yield Listed(path, relative)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ListingFault(f"find failed (exit code {process.returncode})")


def split_names(source: IO[bytes], separator: bytes) -> Iterator[bytes]:
    """The non-empty names of a file or pipe, however they are cut."""
    read = getattr(source, "read1", source.read)
    held = b""
    while data := read(65_536):
        *names, held = (held + data).split(separator)
        yield from filter(None, names)
        if len(held) > 65_536:
            raise ListingFault(
                "a file name is longer than 65,536 bytes",
                "write one name per line, or end each with NUL and use -0",
            )
    if held:
        yield held


def under_docroot(names: Iterable[bytes], docroot: bytes) -> Iterator[Listed]:
    """Files given by name, relative to the docroot or absolute within it.

    :param docroot: b'' for the current folder.
    :raises ListingFault: a name leads out of the docroot.
    """
    base = os.path.abspath(docroot or b".")  # noqa: PTH100  (bytes)
    for name in names:
        path = os.path.normpath(os.path.join(base, name))  # noqa: PTH118
        if path == base:
            continue
        inside = base if base.endswith(b"/") else base + b"/"
        if not path.startswith(inside):
            raise ListingFault(
                f"{os.fsdecode(name)} is outside the docroot {os.fsdecode(base)}",
                "set --docroot to the root of the site, or leave the file out",
            )
        yield Listed(path, path[len(inside) :])


def relative_url(relative: bytes, index: bytes = b"") -> str:
    """The URL of a file, relative to that of the docroot.

    :param index: the name of index pages, whose URL is that of their folder; the docroot's own is ``./``.
    """
    if index and os.path.basename(relative) == index:  # noqa: PTH119  (bytes)
        relative = relative[: -len(index)] or b"./"
    return quote_from_bytes(relative, _SAFE)


class Describer:
    """Makes the containers of files.

    :param table: gives mime types by name.
    :param mimetype: of every file, whatever its name; '' to ask the table.
    :param index: see :func:`relative_url`.
    :param mtime: tell when the file was modified.
    """

    def __init__(self, table: MimeTable, mimetype: str = "", index: bytes = b"", mtime: bool = True) -> None:
        self._table = table
        self._mimetype = mimetype
        self._index = index
        self._mtime = mtime
        self._buffer = bytearray(_READ_BYTES)

    def describe(self, file: Listed) -> dict[str, str]:
        """The attributes of a file's container.

        :raises Skipped: it has none.
        :raises OSError: it cannot be read.
        """
        shown = os.fsdecode(file.path)
        mimetype = self._mimetype or self._table.type_of(file.relative)
        if not mimetype:
            if os.path.isdir(file.path):  # noqa: PTH112  (bytes)
                raise Skipped("folder", f"{shown} is a folder")
            raise Skipped("untyped", f"{shown}: unknown mime type, skipped")
        try:
            # Without blocking: it may turn out to be a FIFO.
            descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise Skipped("vanished", f"{shown} no longer exists, skipped") from None
            if error.errno in (errno.ENXIO, errno.ENODEV):
                raise Skipped("not-a-file", f"{shown} is not a regular file, skipped") from None
            raise
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise Skipped("folder", f"{shown} is a folder")
            if not stat.S_ISREG(status.st_mode):
                raise Skipped("not-a-file", f"{shown} is not a regular file, skipped")
            digest, length = self._read(descriptor)
        finally:
            os.close(descriptor)
        attributes = {
            "c": relative_url(file.relative, self._index),
            "m": mimetype,
            "md5": digest,
            "len": str(length),
        }
        if self._mtime:
            attributes["mtime"] = str(max(0, status.st_mtime_ns // 1_000_000_000))
        return attributes

    def _read(self, descriptor: int) -> tuple[str, int]:
        digest = md5(usedforsecurity=False)
        length = 0
        buffer = self._buffer
        view = memoryview(buffer)
        while count := os.readv(descriptor, [buffer]):
            digest.update(view[:count])
            length += count
        return digest.hexdigest(), length
