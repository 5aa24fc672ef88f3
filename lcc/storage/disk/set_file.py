"""One set in the spool: a header line of :data:`HEADER_BYTES` bytes, then the elements.

The file name of a set that may have been acknowledged names its provider, which survives any damage of the content.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import attrs

from lcc.model import SetHeader, Source, parse_source, source_text
from lcc.model.notifiers import NoticeId
from lcc.storage.disk.epoch_file import EpochFile
from lcc.storage.disk.file_system import Disk

HEADER_BYTES = 512
SUFFIX = ".set"
_ACCEPTED_NAME = re.compile(r"\d+-(\d+)\.set", re.ASCII)
_NOTIFIERS_NAME = re.compile(r"\d+-\d+-n\.set", re.ASCII)
CHARGED_BYTES_MIN = 8192
"""The least that a set is charged in its spool: even a small one takes memory and a file."""


def set_name(number: int) -> str:
    """File name of a complete set that is not acknowledged."""
    return f"{number:012d}{SUFFIX}"


def accepted_name(header: SetHeader) -> str:
    """File name of a set whose provider, or notifier, may have been told that it is accepted."""
    return f"{header.number:012d}-{header.pid}{'' if header.said is None else '-n'}{SUFFIX}"


def accepted_pid(name: str) -> int | None:
    """The provider that may have been told that the set of this file name is accepted; None: none."""
    match = _ACCEPTED_NAME.fullmatch(name)
    return None if match is None else int(match[1])


def is_notifiers(name: str) -> bool:
    """Whether a file of this name has a notifier's set: no provider can be asked for what was in it."""
    return _NOTIFIERS_NAME.fullmatch(name) is not None


class SpoolDamaged(Exception):
    """A set file is damaged.

    :ivar lost_pid: the provider whose accepted set is lost; 0: unknown provider; None: it was not accepted, or it was
        a notifier's.
    """

    def __init__(self, why: str, lost_pid: int | None = None) -> None:
        super().__init__(why)
        self.lost_pid = lost_pid


@attrs.define(eq=False)
class SpooledSet:
    """A complete set in the spool.

    :ivar path: changes when the set is put on stable storage; None: it is only in memory.
    :ivar body: the elements of a small set, as long as it is not on stable storage; None: they are in the file.
    :ivar header: as it goes to the queue manager.
    :ivar count: elements.
    :ivar body_bytes: bytes of the elements.
    :ivar check: CRC-32 of the elements.
    :ivar checked: the file is known to be whole (it was written by this process, or has been read through).
    """

    path: Path | None
    header: SetHeader
    count: int
    body_bytes: int
    check: int
    checked: bool
    body: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """Of the whole file."""
        return HEADER_BYTES + self.body_bytes

    @property
    def charged_bytes(self) -> int:
        """What it is charged in its spool."""
        return max(self.size_bytes, CHARGED_BYTES_MIN)

    def header_line(self, *, answered: bool) -> bytes:
        """The file's first line."""
        fields = {
            "epoch": self.header.epoch,
            "number": self.header.number,
            "pid": self.header.pid,
            "connseq": self.header.connseq,
            "full": self.header.full,
            "errors_upto": self.header.errors_upto,
            "answered": answered,
            "time": self.header.time,
            "wantid": self.header.wantid,
            "deletions": self.header.deletions,
            "count": self.count,
            "body_bytes": self.body_bytes,
            "check": self.check,
        }
        if self.header.source != Source.TOLD:
            fields["source"] = source_text(self.header.source)
        said = self.header.said
        if said is not None:
            fields["said"] = [said.notifier, said.epoch, said.number, said.after]
        return json.dumps(fields, separators=(",", ":")).encode().ljust(HEADER_BYTES - 1) + b"\n"


def _read_said(fields: Any) -> NoticeId | None:
    if fields is None:
        return None
    notifier, epoch, number, after = fields
    return NoticeId(str(notifier), str(epoch), int(number), int(after))


def read_set_header(uns: str, path: Path, size: int, disk: Disk, epochs: EpochFile) -> SpooledSet:
    """Read the header of a set file.

    :raises SpoolDamaged: bad header or size.
    """
    with disk.open(path) as file:
        line = file.read(HEADER_BYTES)
    try:
        fields = json.loads(line)
        header = SetHeader(
            uns=uns,
            epoch=epochs.current(str(fields["epoch"])),
            number=int(fields["number"]),
            pid=int(fields["pid"]),
            connseq=int(fields["connseq"]),
            full=bool(fields["full"]),
            errors_upto=int(fields["errors_upto"]),
            answered=bool(fields["answered"]),
            time=int(fields["time"]),
            wantid=int(fields["wantid"]),
            deletions=bool(fields.get("deletions", False)),  # older spools do not say
            source=parse_source(str(fields.get("source", "told"))),
            said=_read_said(fields.get("said")),
        )
        count, body_bytes, check = int(fields["count"]), int(fields["body_bytes"]), int(fields["check"])
    except (ValueError, KeyError, TypeError) as error:
        lost = accepted_pid(path.name)
        if lost is None and line.strip(b"\0 \n") and not is_notifiers(path.name):
            lost = 0  # without any header it was on its way when the power failed: what is accepted is synced with it
        raise SpoolDamaged(f"bad header ({error!r})", lost) from None
    if size != HEADER_BYTES + body_bytes:
        lost = header.pid if header.answered and header.said is None else accepted_pid(path.name)
        raise SpoolDamaged(f"it has {size} bytes instead of {HEADER_BYTES + body_bytes}", lost)
    return SpooledSet(path, header, count, body_bytes, check, checked=False)
