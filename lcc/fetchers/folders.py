"""Folders as documents: the URLs of what is in them, one a line (``text/uri-list``, RFC 2483); and types by names.

Only who asks for no type gets them (the spider, and other hints), or who asks for this one: to all others a folder is
no document.  Names that begin with a dot are left out, as web servers do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from mimetypes import MimeTypes
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from lcc.fetchers.base import Task
from lcc.fetchers.http_head import UNKNOWN_TYPE, check_type
from lcc.model import FetchOrder

URI_LIST = "text/uri-list"
_KNOWN = MimeTypes()
_LINE_CHARS_MAX = 4096
_UNIX = re.compile(
    r"([a-zA-Z-])[rwxsStTlL-]{9}[.+@]?\s+.{1,200}?\s(?:[A-Z][a-z]{2}\s+[0-9]{1,2}|[0-9]{1,2}\s+[A-Z][a-z]{2})"
    r"\s+(?:[0-9]{4}|[0-9]{1,2}:[0-9]{2})\s(.+)"
).fullmatch
_DOS = re.compile(r"[0-9]{2}-[0-9]{2}-[0-9]{2,4}\s+[0-9]{2}:[0-9]{2}(?:[AP]M)?\s+(<DIR>|[0-9]+)\s+(.+)").fullmatch


class Entry(NamedTuple):
    """What is in a folder; each character of the name is one byte."""

    name: str
    is_folder: bool


def wants_folders(order: FetchOrder) -> bool:
    """A folder is a document to who asks for one, or for whatever is there."""
    return order.mimetype in ("", URI_LIST)


def type_of(order: FetchOrder) -> str:
    """The type that a name says, where the order tells none; empty: it does.

    :raises FetchError: "mimetype-not-accepted".
    """
    if order.mimetype:
        return ""
    path = order.url.partition("#")[0]
    mimetype = URI_LIST if path.endswith("/") else _KNOWN.guess_type(path, strict=True)[0] or UNKNOWN_TYPE
    if order.accepts:
        check_type(mimetype.encode(), order.accepts)
    return mimetype


def write_folder(task: Task, entries: Iterable[Entry]) -> None:
    """Write the URLs of entries, in the order of their names.

    :raises FetchError: as :meth:`Task.write`.
    """
    base = task.order.url.partition("#")[0]
    for name, is_folder in sorted(set(entries)):
        if name and not name.startswith(".") and not any(character in "/\r\n\0" for character in name):
            path = quote_from_bytes(name.encode("latin-1"), safe="!$&'()*+,;=:@~")
            task.write(f"{base}{path}{'/' if is_folder else ''}\r\n".encode())


def read_mlsd(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of an answer to MLSD (RFC 3659, section 7)."""
    for line in lines:
        facts, space, name = line.partition(" ")
        kinds = [fact[5:].lower() for fact in facts.split(";") if fact[:5].lower() == "type="]
        if space and kinds and kinds[0] in ("file", "dir"):
            yield Entry(name, kinds[0] == "dir")


def read_list(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of an answer to LIST, as Unix or Windows servers write it.  Links are taken for files."""
    for line in lines:
        if len(line) > _LINE_CHARS_MAX:
            continue
        if unix := _UNIX(line):
            if unix[1] in "-dl":
                name = unix[2].partition(" -> ")[0] if unix[1] == "l" else unix[2]
                yield Entry(name, unix[1] == "d")
        elif dos := _DOS(line):
            yield Entry(dos[2], dos[1] == "<DIR>")
