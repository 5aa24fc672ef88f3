"""The spool of a UNS (the *unsdb*): sets that are arriving, or not yet answered by a queue manager.

One folder::

    epoch                random token; (epoch, number) names a set for ever (:mod:`lcc.storage.disk.epoch_file`)
    numbers              the durable counter of set numbers
    acked                the epoch, and the highest number that a queue manager has answered
    incoming/            sets that are arriving, or on their way to stable storage; removed at start, because their
                         providers have no answer
    NNNNNNNNNNNN.set     a complete set; numbered at its end, so sets are numbered in the order of completion
    NNNNNNNNNNNN-P.set   the same, once it is on stable storage: provider P may have been told that it is accepted
    NNNNNNNNNNNN-P-n.set the same of a notifier's set
    damaged/             damaged files, kept for the operator
    damage               providers that lost a set by that, until a queue manager has noted it

A set file is a header line of :data:`HEADER_BYTES` bytes (JSON, padded with spaces) and then the elements, one a
line, exactly as they go to the queue manager; passing them on is copying bytes.  The header holds their number,
length and checksum, so that a truncated file is noticed before any of it is passed on.

A small set has no file before it is to be on stable storage: its provider has no answer until then, or until the
queue manager has it, which takes some milliseconds.  Small sets are kept in at most :data:`MEMORY_MAX_BYTES`; those
that do not fit are written to files as large ones are.  Sets that are to be on stable storage together share the
thread, and the sync of the folder.

Only :meth:`Spool.secure`, :meth:`Spool.check` and :meth:`Spool.write_epoch`, which must be called in a thread, wait
for the disk; so do the counter, once in a thousand sets, and the list of damage.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import attrs
from twisted.logger import Logger

from lcc.errors import SetError
from lcc.model import SetHeader, Source
from lcc.model.notifiers import NoticeId
from lcc.storage.disk.damage_list import UNKNOWN, DamageList
from lcc.storage.disk.durable import DurableCounter, make_folder_durably, write_durably
from lcc.storage.disk.epoch_file import EpochFile
from lcc.storage.disk.error_file import ErrorFile
from lcc.storage.disk.file_system import DISK, Disk
from lcc.storage.disk.free_space import Room, fault_text
from lcc.storage.disk.set_file import (
    CHARGED_BYTES_MIN,
    HEADER_BYTES,
    SUFFIX,
    SpoolDamaged,
    SpooledSet,
    accepted_name,
    accepted_pid,
    is_notifiers,
    read_set_header,
    set_name,
)

PIECE_BYTES = 65536
FULL_SHARE = 0.9
"""A spool that is filled to this share counts as full."""
MEMORY_MAX_BYTES = 8 << 20
"""Of small sets that have no file, together."""
_ENTRY_BYTES = 1000
"""What a set in memory takes besides its elements, about."""
_NUMBERS_BLOCK = 1000

_log = Logger()


def spool_room(folder: Path, reserve_bytes: int, disk: Disk = DISK) -> Room:
    """The free space check of a spool's disk."""
    return Room(folder, reserve_bytes, "[uns] spool_reserve", disk)


class SpoolFull(Exception):
    """The spool has reached its configured size."""


class Spool:
    """The folder of spooled sets.  One process at a time (the role holds a lock).

    :param folder: made if it does not exist.
    :param name: of this UNS.
    :param size_max_bytes: sets beyond this are refused.
    :param token: gives a random text, for a new epoch.
    :param reserve_bytes: of the disk that are kept free (:mod:`lcc.storage.disk.free_space`).
    :param memory_max_bytes: of complete sets without a file.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        size_max_bytes: int,
        token: Callable[[], str],
        disk: Disk = DISK,
        reserve_bytes: int = 0,
        memory_max_bytes: int = MEMORY_MAX_BYTES,
    ) -> None:
        self.folder = folder
        self.name = name
        self.size_max_bytes = size_max_bytes
        self.disk = disk
        self.size_bytes = 0
        """Charged for all complete and arriving sets."""
        self._memory_max_bytes = memory_max_bytes
        self.memory_bytes = 0
        """Of complete sets that have no file."""
        self.epoch = ""
        self.acked = 0
        self.damaged_count = 0
        """Files moved aside since the start."""
        self.damage = DamageList(folder / "damage", disk)
        self._room = spool_room(folder, reserve_bytes, disk)
        self._ack_fails = False
        self._token = token
        self._epochs = EpochFile(folder / "epoch", disk)
        self._incoming = folder / "incoming"
        self._arrivals = 0
        self._numbers: DurableCounter | None = None

    def open(self) -> list[SpooledSet]:
        """Open the spool; returns the complete sets of earlier runs, in the order of delivery.

        :raises OSError: the folder cannot be used.
        """
        disk = self.disk
        make_folder_durably(self.folder, disk)  # a set is as durable as the folder that it lies in
        disk.make_folder(self._incoming)
        for name, _size in list(disk.names(self._incoming)):
            _log.info("Removing an incomplete set ({name})", name=name)
            disk.remove(self._incoming / name)
        self._open_epoch()
        self.damage.open()
        found = list(self._find_sets())
        # An epoch that was lost leaves older sets behind: those come first.
        found.sort(key=lambda entry: (entry.header.epoch == self.epoch, entry.header.number))
        for entry in found:
            if entry.header.answered:
                self._mend_name(entry)
        assert self._numbers is not None
        self._numbers.skip_to(max((entry.header.number for entry in found), default=0) + 1)
        self.size_bytes = sum(entry.charged_bytes for entry in found)
        return found

    def _mend_name(self, entry: SpooledSet) -> None:
        """A set that was acknowledged by an earlier version, or just before a crash, gets the name of such sets."""
        try:
            assert entry.path is not None
            self._name_as_accepted(entry, entry.path)
        except OSError as error:
            _log.error("Cannot rename {path}: {error}", path=str(entry.path), error=str(error))

    @property
    def numbers_upto(self) -> int:
        """Set numbers from this one on were never given out."""
        assert self._numbers is not None
        return self._numbers.next_number

    def no_room(self) -> str:
        """Why no further set may begin, for operators; empty: it may.  The rest of the space is for arriving sets.

        The threshold is below the full size, because what does not fit is not written: the last bytes stay unused.
        """
        if self.size_bytes >= FULL_SHARE * self.size_max_bytes:
            return (
                f"{self.folder}: {self.size_bytes:,} of {self.size_max_bytes:,} bytes ([uns] spool_max_bytes) are "
                "taken by sets that wait for the queue manager: see the queue manager's log"
            )
        return self._room.missing()

    def begin(
        self,
        *,
        pid: int,
        connseq: int,
        full: bool,
        errors_upto: int,
        wantid: int = 0,
        deletions: bool = False,
        source: Source = Source.TOLD,
        said: NoticeId | None = None,
    ) -> SetWriter:
        """A writer for a set that begins to arrive.

        :raises SpoolFull: there is no room for it.
        """
        self._arrivals += 1
        header = SetHeader(
            self.name, self.epoch, 0, pid, connseq, full, errors_upto, False, 0, wantid, deletions, source, said
        )
        return SetWriter(self, str(self._arrivals), header)

    def secure(self, entries: Sequence[SpooledSet]) -> list[OSError | None]:
        """Put sets on stable storage, marked as acknowledged.  To be called in a thread; changes nothing in memory
        but the entries' paths: :meth:`secured` does.

        :returns: for each why it may not be on stable storage; None: it is.
        """
        faults = [self._secure_file(entry) for entry in entries]
        try:
            self.disk.sync_folder(self.folder)
        except OSError as error:
            return [fault or error for fault in faults]
        return faults

    def _secure_file(self, entry: SpooledSet) -> OSError | None:
        """The same for one of them, but that its name is not synced yet."""
        path = entry.path or self._incoming / set_name(entry.header.number)
        try:
            if entry.path is None:
                self._write_file(entry, path)
            else:
                self.disk.patch(path, 0, entry.header_line(answered=True))
            self.disk.sync_file(path)
            self._name_as_accepted(entry, path)
        except OSError as error:
            if entry.path is None:
                self._remove(path)
            return error
        return None

    def _write_file(self, entry: SpooledSet, path: Path) -> None:
        """The file of a set that has been in memory only."""
        assert entry.body is not None
        with self.disk.create(path) as file:
            self.disk.write(file, entry.header_line(answered=True) + entry.body)

    def secured(self, entry: SpooledSet) -> None:
        """This set is on stable storage, and need not be in memory."""
        if entry.body is not None:
            self._forget(entry)
            entry.body = None

    def keep(self, entry: SpooledSet) -> bool:
        """Count a set that is only in memory; False: there is no room for it."""
        assert entry.body is not None
        size = len(entry.body) + _ENTRY_BYTES
        if self.memory_bytes + size > self._memory_max_bytes:
            return False
        self.memory_bytes += size
        return True

    def _forget(self, entry: SpooledSet) -> None:
        if entry.body is not None:
            self.memory_bytes -= len(entry.body) + _ENTRY_BYTES

    def _name_as_accepted(self, entry: SpooledSet, path: Path) -> None:
        accepted = self.folder / accepted_name(entry.header)
        if accepted != path:
            self.disk.rename(path, accepted)
        entry.path = accepted

    def check(self, entry: SpooledSet) -> None:
        """Verify a file.  To be called in a thread; changes nothing in memory.

        :raises SpoolDamaged: the checksum does not match.
        :raises OSError: it cannot be read.
        """
        check = length = 0
        with self.read(entry) as file:
            while data := file.read(PIECE_BYTES * 4):
                check = zlib.crc32(data, check)
                length += len(data)
        if (length, check) != (entry.body_bytes, entry.check):
            raise SpoolDamaged(f"{entry.path}: checksum mismatch")

    def error_file(self, size_max_bytes: int) -> ErrorFile:
        """A file for the waiting output of a connection."""
        self._arrivals += 1
        return ErrorFile(self._incoming / f"{self._arrivals}", size_max_bytes, self.disk)

    def read(self, entry: SpooledSet) -> BinaryIO:
        """Open the file, or what is in memory, at its first element.

        :raises OSError: read error.
        """
        if entry.body is not None:
            return BytesIO(entry.body)
        assert entry.path is not None
        file = self.disk.open(entry.path)
        file.seek(HEADER_BYTES)
        return file

    def remove(self, entry: SpooledSet) -> None:
        """Remove a set.  A file that cannot be removed is delivered again after a restart, which does no harm."""
        self.size_bytes -= entry.charged_bytes
        self._forget(entry)
        self.remove_file(entry)

    def remove_file(self, entry: SpooledSet) -> None:
        """Remove the file of a removed set that was written or renamed meanwhile."""
        if entry.path is not None:
            self._remove(entry.path)

    def _remove(self, path: Path) -> None:
        try:
            self.disk.remove(path)
        except OSError as error:
            _log.error("Cannot remove {path}: {error}", path=str(path), error=str(error))

    def set_aside(self, entry: SpooledSet, why: str) -> None:
        """Move a damaged set to ``damaged/``."""
        self.size_bytes -= entry.charged_bytes
        self._forget(entry)
        if entry.path is not None:
            self._set_aside(entry.path, why)

    def spare_number(self) -> int:
        """Allocate a set number that no set has; 0: disk error."""
        assert self._numbers is not None
        try:
            return self._numbers.next()
        except OSError as error:
            _log.error("Cannot allocate a set number: {fault}", fault=fault_text(self.folder, error))
            return 0

    def acknowledged(self, number: int) -> None:
        """A queue manager has answered this number of the current epoch.  A hint only, so it is not synced."""
        if number <= self.acked:
            return
        self.acked = number
        try:
            self.disk.patch(self.folder / "acked", 0, f"{self.epoch} {number:020d}\n".encode(), create=True)
            self._ack_fails = False
        except OSError as error:
            if not self._ack_fails:  # once is enough: each answer comes here
                self._ack_fails = True
                _log.error(
                    "Cannot save the last acknowledged set number: {fault}", fault=fault_text(self.folder, error)
                )

    def write_epoch(self) -> str:
        """Write a new epoch to stable storage, in place of the current one, and return it.  To be called in a thread;
        changes nothing in memory: :meth:`begin_epoch` does.

        :raises OSError: the old epoch stays.
        """
        epoch = self._token()
        self._epochs.write(epoch, self.epoch)
        return epoch

    def begin_epoch(self, epoch: str) -> None:
        """Number sets in this epoch, which :meth:`write_epoch` returned."""
        self._epochs.end(self.epoch, epoch)
        self.epoch = epoch
        self.acked = 0

    # Inside.

    def _open_epoch(self) -> None:
        disk, numbers = self.disk, self.folder / "numbers"
        self.epoch = self._epochs.read()
        try:
            disk.read(numbers)
            self._numbers = DurableCounter(numbers, _NUMBERS_BLOCK, disk)
        except (FileNotFoundError, ValueError) as error:
            if self.epoch:
                _log.error("The counter of set numbers is lost ({error}): starting a new epoch", error=str(error))
            self.epoch = ""
            write_durably(numbers, b"1\n", disk)
            self._numbers = DurableCounter(numbers, _NUMBERS_BLOCK, disk)
        if not self.epoch:
            self.epoch = self._token()
            self._epochs.write(self.epoch)
        try:
            name, _, number = disk.read(self.folder / "acked").decode("ascii", "replace").strip().partition(" ")
        except FileNotFoundError:
            name, number = "", ""
        except OSError as error:  # a hint only
            _log.error("Cannot read the last acknowledged set number: {error}", error=str(error))
            name, number = "", ""
        self.acked = int(number) if name == self.epoch and number.isdigit() else 0

    def _find_sets(self) -> Iterator[SpooledSet]:
        for name, size in list(self.disk.names(self.folder)):
            if not name.endswith(SUFFIX):
                continue
            path = self.folder / name
            try:
                yield read_set_header(self.name, path, size, self.disk, self._epochs)
            except SpoolDamaged as error:
                self._set_aside(path, str(error))
                if error.lost_pid is not None:
                    self.damage.add(error.lost_pid)
            except OSError as error:
                self._set_aside(path, f"read error ({error})")
                if not is_notifiers(name):
                    self.damage.add(accepted_pid(name) or UNKNOWN)

    def _set_aside(self, path: Path, why: str) -> None:
        self.damaged_count += 1
        folder = self.folder / "damaged"
        _log.critical(
            "Damaged set in the spool: {why}; moving {path} to {folder}",
            why=why,
            path=str(path),
            folder=str(folder),
        )
        try:
            self.disk.make_folder(folder)
            self.disk.rename(path, folder / path.name)
        except OSError as error:
            _log.error("Cannot move {path}: {error}", path=str(path), error=str(error))

    def next_number(self) -> int:
        """The number of a set that is complete.

        :raises OSError: disk error.
        """
        assert self._numbers is not None
        return self._numbers.next()


class SetWriter:
    """Writes a set that is arriving.  Ends with :meth:`complete` or :meth:`abandon`.

    :ivar count: elements so far.
    """

    def __init__(self, spool: Spool, name: str, header: SetHeader) -> None:
        self.count = 0
        self._spool = spool
        self._name = name
        self._header = header
        self._file: BinaryIO | None = None
        self._body_bytes = 0
        self._check = 0
        self._lines: list[str] = []
        self._line_chars = 0
        self._charged_bytes = 0
        self._charge(HEADER_BYTES)

    def add(self, element: str) -> None:
        """Append an element.

        :raises SpoolFull: the spool is full.
        :raises SetError: the set is larger than the spool.
        :raises OSError: disk error.
        """
        self.add_lines(element, 1)

    def add_lines(self, elements: str, count: int) -> None:
        """Append ``count`` elements, a line each, without the last line's end.

        :raises SpoolFull, SetError, OSError: as :meth:`add`.
        """
        self.count += count
        self._lines.append(elements)
        self._line_chars += len(elements) + 1
        if self._line_chars >= PIECE_BYTES:
            self._write(self._collected())

    def complete(self, now: int) -> SpooledSet:
        """The set is complete: it gets its number, but is not yet on stable storage.

        :raises SpoolFull, SetError, OSError: as :meth:`add`; the writer must then be abandoned.
        """
        spool, body = self._spool, self._collected()
        number = spool.next_number()
        header = attrs.evolve(self._header, epoch=spool.epoch, number=number, time=now)
        if self._file is None:
            entry = SpooledSet(None, header, self.count, len(body), self._check, checked=True, body=body)
            if spool.keep(entry):
                self._charged_bytes = 0
                return entry
        self._write(body)
        assert self._file is not None
        path = spool.folder / set_name(number)
        entry = SpooledSet(path, header, self.count, self._body_bytes, self._check, checked=True)
        self._file.seek(0)
        spool.disk.write(self._file, entry.header_line(answered=False))
        self._file.close()
        spool.disk.rename(self._path, path)
        self._charged_bytes = 0
        return entry

    def abandon(self) -> None:
        """Discard the set.  May be called after a failure, and twice."""
        self._lines.clear()
        self._spool.size_bytes -= self._charged_bytes
        self._charged_bytes = 0
        if self._file is None:
            return
        self._file.close()
        self._spool._remove(self._path)

    @property
    def _path(self) -> Path:
        """Of the file, if it has one."""
        return self._spool._incoming / self._name

    def _collected(self) -> bytes:
        """The elements that are not written yet, charged and counted."""
        if not self._lines:
            return b""
        self._lines.append("")
        data = "\n".join(self._lines).encode()
        self._charge(HEADER_BYTES + self._body_bytes + len(data))
        self._lines.clear()
        self._line_chars = 0
        self._body_bytes += len(data)
        self._check = zlib.crc32(data, self._check)
        return data

    def _charge(self, size_bytes: int) -> None:
        """Charge the spool for a set of this size."""
        spool = self._spool
        if size_bytes > spool.size_max_bytes:
            raise SetError("set-too-large", f"larger than the spool of this server ({spool.size_max_bytes} bytes)")
        more = max(size_bytes, CHARGED_BYTES_MIN) - self._charged_bytes
        if spool.size_bytes + more > spool.size_max_bytes:
            raise SpoolFull
        spool.size_bytes += more
        self._charged_bytes += more

    def _write(self, data: bytes) -> None:
        """Write to the file; it is made now if there is none yet."""
        disk = self._spool.disk
        if self._file is None:
            self._file = disk.create(self._path)
            data = b" " * (HEADER_BYTES - 1) + b"\n" + data
        disk.write(self._file, data)
