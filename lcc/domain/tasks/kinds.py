"""Limits of kinds of jobs, as ``[manager] kinds`` says them: ``feed jobs=8 seconds=60``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lcc.model.tasks import NAME_CHARS_MAX
from lcc.numbers import parse_number

ANY = "*"
"""Stands for each kind that is not named."""
_LARGEST = 2**62


class KindSettings(NamedTuple):
    """What jobs of a kind may use; 0: without limit, but for ``jobs``.

    :ivar jobs: at once; 0: none.
    :ivar seconds: then TERM, and KILL after ``grace_seconds``.
    :ivar memory_bytes: address space of each process.
    :ivar open_files: of each process.
    :ivar file_bytes: of a file that is written.
    :ivar disk_bytes: of the job's folder.
    :ivar processes: of a job, threads included.
    :ivar nice: niceness that is added.
    """

    jobs: int
    seconds: float
    grace_seconds: float
    memory_bytes: int
    open_files: int
    file_bytes: int
    disk_bytes: int
    processes: int
    nice: int


def parse_kinds(lines: Iterable[str], default: KindSettings) -> tuple[dict[str, KindSettings], list[str]]:
    """The limits of each kind that is named, and :data:`ANY`; and what is wrong with the lines.

    :param lines: a kind, then ``name=number`` for each limit that differs from the default, separated by spaces.
    """
    found: dict[str, KindSettings] = {}
    faults: list[str] = []
    for line in lines:
        kind, *words = line.split() or [""]
        if not 0 < len(kind) <= NAME_CHARS_MAX or "=" in kind:
            faults.append(f"{line!r}: must begin with the name of a kind")
            continue
        if kind in found:
            faults.append(f"{line!r}: {kind} is named twice")
        values: dict[str, Any] = {}
        for word in words:
            name, _, text = word.partition("=")
            try:
                if name not in KindSettings._fields:
                    raise ValueError
                values[name] = parse_number(text, _LARGEST)
            except ValueError:
                faults.append(f"{line!r}: {word!r} is no limit; there are {', '.join(KindSettings._fields)}")
        found[kind] = default._replace(**values)
    return {ANY: default, **found}, faults
