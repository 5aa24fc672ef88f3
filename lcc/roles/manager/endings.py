"""Endings and commits of jobs that the scheduler has not recorded yet: numbered, and kept on the disk.

Each is a file of the folder ``endings``: a line of JSON with the fields of :class:`~lcc.protocols.jobs.Ending`, a
line of its effects as XML, and the checksum of both.  They outlive the process: the next run of the manager sends
them first.  Numbers are those of a run, and not in the files.

The disk may fail: then an ending is kept in memory only, and is lost if the manager is killed before it is recorded;
its job counts as lost, and is tried again.  What cannot be read back takes no effect, nor does what the same attempt
has committed or ended with later: it is a temporary error, and tried again as a whole.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from lcc.model.tasks import JobState
from lcc.numbers import INT64_MAX, parse_number
from lcc.protocols.flat import Flat
from lcc.protocols.jobs import EndEnding, Ending
from lcc.roles.manager.effects import Collected
from lcc.storage.disk.durable import make_folder_durably
from lcc.storage.disk.file_system import Disk

_log = Logger()

_SUFFIX = ".ending"
_LOST = "Its effects were lost: the manager could not read them from its disk"
InThread = Callable[..., Deferred[Any]]
Settled = Callable[[str], object]
"""Called when the scheduler has recorded it, with an empty text; or when it is lost, with why."""


@attrs.frozen
class NewEnding:
    """An ending to be kept.

    :ivar ending: its number is 0.
    :ivar messages: its log and texts.
    :ivar effects: None: it has none.
    """

    ending: Ending
    messages: list[Flat]
    effects: Collected | None

    def pieces(self) -> Iterator[bytes]:
        """As it is in its file.  It may block.

        :raises OSError: its effects cannot be read.
        """
        yield json.dumps(attrs.asdict(self.ending)).encode() + b"\n"
        yield "".join([message.to_xml() for message in self.messages]).encode()
        if self.effects is not None:
            yield from self.effects.pieces()
        count = len(self.messages) + (0 if self.effects is None else self.effects.count)
        yield EndEnding(count).to_xml().encode()

    def checked_pieces(self) -> Iterator[bytes]:
        """The same, and its checksum."""
        checksum = 0
        for piece in self.pieces():
            checksum = crc32(piece, checksum)
            yield piece
        yield b"\n%08x" % checksum


@attrs.define
class _Kept:
    id: int
    attempt: int
    commit: int
    content: bytes | None
    """None: it is in its file."""
    number: int = 0
    settled: Settled | None = None

    @property
    def job(self) -> tuple[int, int]:
        return self.id, self.attempt

    @property
    def name(self) -> str:
        return f"{self.id}-{self.attempt}-{self.commit}{_SUFFIX}"


class KeptEndings:
    """
    :param folder: of their files.
    :param in_thread: runs what blocks.
    :param changed: called when there are new ones to be sent.
    """

    def __init__(self, folder: Path, disk: Disk, in_thread: InThread, changed: Callable[[], object]) -> None:
        self._folder = folder
        self._disk = disk
        self._in_thread = in_thread
        self._changed = changed
        self._kept: deque[_Kept] = deque()
        self._new: deque[tuple[NewEnding, _Kept]] = deque()
        self._writing = False
        self._last = 0
        self._broken: set[tuple[int, int]] = set()
        """Attempts that have lost a commit."""

    def open(self) -> None:
        """Make the folder, and find what earlier runs have left there.

        :raises OSError: it cannot be used.
        """
        make_folder_durably(self._folder, self._disk)
        found: list[tuple[int, int, float, _Kept]] = []
        for name, _ in self._disk.names(self._folder):
            try:
                if not name.endswith(_SUFFIX):
                    raise ValueError(name)
                words = name.removesuffix(_SUFFIX).split("-")
                id_, attempt, commit = (parse_number(word, INT64_MAX) for word in words)
            except ValueError:
                self._disk.remove(self._folder / name)  # one that was being written
                continue
            # Of an attempt the end comes last.
            found.append((id_, attempt, commit or float("inf"), _Kept(id_, attempt, commit, None)))
        for *_, kept in sorted(found, key=lambda each: each[:3]):
            self._enter(kept)
        # Named for its commit, a job that was killed with the last run would seem to run here for ever.
        ended = {each[:2] for each in found if not each[3].commit}
        for id_, attempt in sorted({each[:2] for each in found} - ended):
            text = "Ended because the manager was killed"
            ending = Ending(0, id_, attempt, JobState.TEMPORARY.value, message=text)
            content = b"".join(NewEnding(ending, [], None).checked_pieces())
            self._enter(_Kept(id_, attempt, 0, content))

    def __len__(self) -> int:
        return len(self._kept) + len(self._new)

    def jobs(self) -> set[tuple[int, int]]:
        """Id and attempt of each job with one that is not recorded."""
        return {each.job for each in (*self._kept, *(kept for _, kept in self._new))}

    def keep(self, new: NewEnding, settled: Settled | None = None) -> None:
        """Keep one; it is sent once it is on the disk."""
        ending = new.ending
        self._new.append((new, _Kept(ending.id, ending.attempt, ending.commit, None, 0, settled)))
        if not self._writing:
            self._writing = True
            Deferred.fromCoroutine(self._write_all()).addErrback(_log_failure)

    def after(self, number: int) -> int:
        """The number of the next one behind this number; 0: there is none."""
        return next((each.number for each in self._kept if each.number > number), 0)

    async def read(self, number: int) -> str:
        """What is to be sent of the one with this number; empty: nothing.

        An ending that cannot be read is a temporary error without effects; a commit is not sent, and its job told.
        """
        kept = next((each for each in self._kept if each.number == number), None)
        if kept is None:
            return ""
        if kept.job in self._broken:
            return self._lost(kept)
        try:
            content = kept.content
            if content is None:
                content = await self._in_thread(self._disk.read, self._folder / kept.name)
            whole, _, checksum = content.rpartition(b"\n")
            if checksum != b"%08x" % crc32(whole):
                raise ValueError("it is damaged")
            line, _, rest = whole.partition(b"\n")
            return attrs.evolve(Ending(**json.loads(line)), number=number).to_xml() + rest.decode()
        except (OSError, ValueError, TypeError) as error:
            _log.error("Cannot read {name}: {error}; its effects are lost", name=kept.name, error=str(error))
            return self._lost(kept)

    def _lost(self, kept: _Kept) -> str:
        """What is sent in place of one that is lost."""
        if kept.commit:
            self._broken.add(kept.job)
            self._kept.remove(kept)
            self._settle([kept], _LOST)
            return ""
        ending = Ending(kept.number, kept.id, kept.attempt, JobState.TEMPORARY.value, message=_LOST)
        return ending.to_xml() + EndEnding(0).to_xml()

    def recorded(self, upto: int) -> None:
        """The scheduler has recorded those with numbers up to this one."""
        gone: list[_Kept] = []
        while self._kept and self._kept[0].number <= upto:
            gone.append(self._kept.popleft())
        self._settle(gone, "")

    def _settle(self, gone: Iterable[_Kept], why: str) -> None:
        paths = [self._folder / each.name for each in gone if each.content is None]
        if paths:
            self._in_thread(self._remove_files, paths).addErrback(_log_failure)
        for each in gone:
            if not each.commit:
                self._broken.discard(each.job)
            if each.settled is not None:
                each.settled(why)

    def _remove_files(self, paths: list[Path]) -> None:
        for path in paths:
            self._disk.remove(path)

    async def _write_all(self) -> None:
        try:
            while self._new:
                batch = list(self._new)
                faults = await self._in_thread(self._write, batch)
                for (new, kept), fault in zip(batch, faults, strict=True):
                    self._new.popleft()
                    self._written(new, kept, fault)
                self._changed()
        finally:
            self._writing = False

    def _written(self, new: NewEnding, kept: _Kept, fault: str) -> None:
        if fault:
            _log.warn(
                "Cannot write the ending of job {id} to the disk, keeping it in memory: {fault}",
                id=kept.id,
                fault=fault,
            )
            try:
                kept.content = b"".join(new.checked_pieces())
            except OSError as error:
                _log.error("The effects of job {id} are lost: {error}", id=kept.id, error=str(error))
                kept.content = b""  # read() makes a temporary error of it
            finally:
                if new.effects is not None:
                    new.effects.close()
        elif new.effects is not None:
            new.effects.close()
        self._enter(kept)

    def _enter(self, kept: _Kept) -> None:
        self._last += 1
        kept.number = self._last
        self._kept.append(kept)

    def _write(self, batch: list[tuple[NewEnding, _Kept]]) -> list[str]:
        """In a thread: write files, and sync them; gives what went wrong with each."""
        faults: list[str] = []
        for new, kept in batch:
            path = self._folder / kept.name
            temporary = path.with_name(path.name + ".new")
            try:
                with self._disk.create(temporary) as file:
                    for piece in new.checked_pieces():
                        self._disk.write(file, piece)
                self._disk.sync_file(temporary)
                self._disk.rename(temporary, path)
            except OSError as error:
                self._disk.remove(temporary)
                faults.append(str(error))
            else:
                faults.append("")
        try:
            self._disk.sync_folder(self._folder)
        except OSError as error:
            _log.warn("Cannot sync {folder}: {error}", folder=str(self._folder), error=str(error))
        return faults


def _log_failure(failure: Any) -> None:
    _log.failure("Keeping the endings of jobs failed", failure=failure)
