"""Batches of content files: what one order has fetched from another LCC, in one request and with one result
(``doc/moves.md``).

A batch is a URL of a content port, ``…/MACHINE/FIRST,STEP,STEP…``: each file's number is that of the one before it
plus the step.  Its queue row has the subtype ``batch/COUNT``, which no provider can tell: theirs are ``type: value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from lcc.numbers import parse_number

FILES_MAX = 100
"""Files of one batch."""
FILE_BYTES_MAX = 1 << 16
"""Larger files are in no batch: one by one they cost little more, and each can be resumed by itself."""
SIZE_MAX = 1 << 62
_FILE_MAX = 10**19
_SUBTYPE = "batch/"
_STORED = re.compile(r"([0-9]{1,19}):([0-9a-f]{32})", re.ASCII)
_NOT_STORED = "-"

StoredFile = tuple[int, str] | None
"""Size in bytes and md5 of a file of a batch; None: it was not stored."""


def subtype_of(count: int) -> str:
    """The subtype of a batch of so many files."""
    return f"{_SUBTYPE}{count}"


def count_of(subtype: str) -> int:
    """How many files the batch with this subtype has; 0: it is that of no batch."""
    if not subtype.startswith(_SUBTYPE):
        return 0
    try:
        return parse_number(subtype.removeprefix(_SUBTYPE), FILES_MAX)
    except ValueError:
        return 0


def write_names(files: Sequence[int]) -> str:
    """The files of a batch as its URL has them.

    :param files: ascending.
    """
    steps = [file - before for before, file in pairwise(files)]
    return ",".join(map(str, [files[0], *steps]))


def read_names(text: str) -> list[int]:
    """The same.

    :raises ValueError: they are no files of a batch.
    """
    digits = text.split(",", FILES_MAX)
    if len(digits) > FILES_MAX:
        raise ValueError(f"more than {FILES_MAX} files")
    steps = [parse_number(each, _FILE_MAX) for each in digits]
    if 0 in steps[1:]:
        raise ValueError("a file is there twice")
    return list(accumulate(steps))


def write_stored(files: Iterable[StoredFile]) -> str:
    """What was stored of a batch, as results have it: ``SIZE:MD5,-,…``, a word for each file."""
    return ",".join([_NOT_STORED if each is None else f"{each[0]}:{each[1]}" for each in files])


def read_stored(text: str, count: int) -> list[StoredFile]:
    """The same.

    :param count: files of the batch.
    :raises ValueError: it says something else, or of another number of files.
    """
    words = text.split(",", count)
    if len(words) != count:
        raise ValueError(f"a result of other than {count} files")
    found: list[StoredFile] = []
    for word in words:
        match = _STORED.fullmatch(word)
        if match is None and word != _NOT_STORED:
            raise ValueError(f"{word[:80]!r} in the result of a batch")
        found.append(None if match is None else (parse_number(match[1], SIZE_MAX), match[2]))
    return found
