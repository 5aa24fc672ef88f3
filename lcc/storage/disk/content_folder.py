"""The folder of content files: file ids that are never reused, attempts, and accepted files.

``content/``
    ``mark``                 the last change of the database that this BOT-M heard of
    ``counter``              the next free file id (:class:`lcc.storage.disk.durable.DurableCounter`)
    ``owner``                the run of the BOT-M that opened it last, by which robots prove that they see this folder
    ``synced``               which files are on the disk (:mod:`lcc.storage.disk.content_sync`)
    ``robots/RUN``           locked by a robot while it fetches for a BOT-M, even one that has died since
    ``attempts/003/ID.N``    written by a robot: the N-th attempt for file ID, in one of 1024 folders
    ``0000000/3ff/0000000ffc2a``  a content file: two levels of 1024, all in hexadecimal, so that names sort by id

A BOT-M owns the folder (:class:`ContentFolder`); robots on the same machine only write attempts
(:class:`AttemptFolder`).  An attempt becomes a content file by a rename within one file system, so a content file
is always complete.  Files are not fsynced one by one (design: promise P7).

Files take turns in the folders of attempts, 1024 at a time, because of ext4: it makes a file near its folder,
and passes over the inodes there that were freed in the last minutes, one by one.  With one folder, a cache that
replaces some hundred pages a second would pay half a millisecond for each new file.

Ids are reserved durably before use and never reused, so that a reader of an old file is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from typing import Protocol
from zlib import crc32

from twisted.application.service import IService
from zope.interface import implementer

from lcc.errors import Busy
from lcc.interfaces import IAttemptFile, IContentFolder, IContentReader, IFetchingNote
from lcc.storage.disk.content_paths import ATTEMPTS, attempt_path, content_path, is_attempt
from lcc.storage.disk.content_verify import fault_of
from lcc.storage.disk.durable import make_folder_durably
from lcc.storage.disk.file_system import DISK, Disk
from lcc.storage.disk.free_space import Room

MARK = "mark"
OWNER = "owner"
PROBE = "probe"
_RUN = re.compile(r"[0-9a-f]{16}", re.ASCII)
ROBOTS = "robots"
_MARK_BYTES = 201
_OWNER_BYTES = 256
_FOLDER_MODE = 0o750
"""The group may read the content."""


class Counter(Protocol):
    """The counter of a content folder (:class:`lcc.storage.disk.durable.DurableCounter`)."""

    def skip_to(self, number: int) -> None:
        """Give out only numbers from this one on."""

    @property
    def reserved_upto(self) -> int:
        """No number from this one on was ever given out."""

    @property
    def next_number(self) -> int:
        """No number from this one on was given out by this process."""

    def next(self) -> int:
        """The next number, which is never given out again."""


def _parsed_mark(data: bytes) -> tuple[str, int]:
    """What a mark's file says; ("", 0): nothing.  It is not synced, so a power cut may leave parts of two marks."""
    text, _, check = data.partition(b"\n")[0].rstrip().rpartition(b" ")
    if b" " not in text:
        text = b"%b %b" % (text, check)  # an older program wrote no check
    elif check != b"%08x" % crc32(text):
        return "", 0
    change, _, timeline = text.decode("ascii", "replace").partition(" ")
    return (timeline, int(change)) if change.isdecimal() and change.isascii() and timeline else ("", 0)


@implementer(IContentFolder)
class ContentFolder:
    """The content files of one machine, for their owner, the BOT-M.

    Touches nothing before :meth:`open`.

    :param path: the folder.
    :param open_counter: opens the counter of file ids, once the folder exists.
    :param reserve_bytes: of the disk that are kept free (:mod:`lcc.storage.disk.free_space`).
    :param lock: as :attr:`lcc.services.process.environment.Environment.lock`; None: nothing is known of robots.
    """

    def __init__(
        self,
        path: Path,
        open_counter: Callable[[Path], Counter],
        disk: Disk = DISK,
        reserve_bytes: int = 0,
        lock: Callable[[Path], IService] | None = None,
    ) -> None:
        self.path = path
        self.robots_path = path / ROBOTS
        self._lock = lock
        self._room = Room(path, reserve_bytes, "[botm] content_reserve", disk)
        self._root = str(path)
        self._open_counter = open_counter
        self._disk = disk
        self._counter: Counter | None = None
        self._attempts_now = ""
        self.mark: tuple[str, int] = ("", 0)
        self.owner = ""

    def open(self) -> None:
        """Make the folders, open the counter, remove the attempts of an earlier run.

        :raises OSError: the folder cannot be used.
        :raises ValueError: the counter's file is damaged.
        """
        attempts = f"{self._root}/{ATTEMPTS}"
        # What is on the disk is as durable as the folder that it lies in: also the counter that tells of its loss.
        make_folder_durably(attempts, self._disk, _FOLDER_MODE)
        self._disk.spread(attempts)
        with suppress(OSError):  # a full disk, which holds what is to be served, is no reason not to start
            self._disk.make_folder(f"{self._root}/{ROBOTS}", _FOLDER_MODE)
        self._counter = self._open_counter(self.path / "counter")
        for folder in (ATTEMPTS, *(f"{ATTEMPTS}/{each}" for each in self._disk.folders(attempts))):
            for name, _size in list(self._disk.names(f"{self._root}/{folder}")):
                self.discard(f"{folder}/{name}")
        try:
            self.mark = _parsed_mark(self._disk.read(f"{self._root}/{MARK}"))
        except FileNotFoundError:
            pass

    def claim(self, run: str) -> None:
        """Write the run of the BOT-M that owns the folder, for :meth:`AttemptFolder.owner`.

        :raises OSError: disk error.
        """
        text = run.encode().ljust(_OWNER_BYTES - 1) + b"\n"
        self._disk.patch(f"{self._root}/{OWNER}", 0, text, create=True)
        self.owner = run

    def fetching_robots(self, among: Container[str] | None = None) -> set[str]:
        """The runs of robots that may be fetching now: they hold their locks.  The files of dead ones are removed.

        :param among: examine these only; one whose lock cannot be examined counts as fetching.  None: examine all.
        :raises OSError: disk error.
        """
        names = [] if self._lock is None else [name for name, _ in self._disk.names(f"{self._root}/{ROBOTS}")]
        found: set[str] = set()
        failed: OSError | None = None
        for run in filter(_RUN.fullmatch, names):
            if among is not None and run not in among:
                continue
            try:
                if not self._is_over(run):
                    found.add(run)
            except OSError as error:
                if among is not None:
                    found.add(run)
                failed = error  # one that cannot be looked at hides no others
        if failed is not None and not found:
            raise failed
        return found

    def robot_over(self, run: str) -> None:
        """The robot of this run has ended: remove what it locked, unless it is about to connect again."""
        if self._lock is not None and _RUN.fullmatch(run):  # it comes from outside
            with suppress(OSError):
                self._is_over(run)

    def _is_over(self, run: str) -> bool:
        assert self._lock is not None
        lock = self._lock(self.robots_path / run)
        try:
            lock.startService()
        except Busy:
            return False
        self.discard(f"{ROBOTS}/{run}")
        lock.stopService()
        return True

    def remember(self, timeline: str, change: int) -> None:
        """Write the last change of the database.  A hint only, so it is not synced.

        :raises OSError: disk error.
        """
        if (timeline, change) != self.mark:
            text = f"{change:020d} {timeline}".encode()
            text = b"%b %08x" % (text, crc32(text))
            self._disk.patch(f"{self._root}/{MARK}", 0, text.ljust(_MARK_BYTES - 1) + b"\n", create=True)
            self.mark = (timeline, change)

    @property
    def free_bytes(self) -> int | None:
        """Of its disk, at the last check; None: not checked yet."""
        return self._room.free_bytes

    @property
    def reserve_bytes(self) -> int:
        """Kept free on its disk."""
        return self._room.reserve_bytes

    def no_room(self, tried: bool) -> str:
        """Why no content can be stored at present; empty: it can.

        :param tried: try to write a file.
        """
        return self._room.missing(self.path / ATTEMPTS / PROBE if tried else None)

    @property
    def names_upto(self) -> int:
        """File ids from this one on were never given out."""
        return self._opened().reserved_upto

    def skip_names(self, upto: int) -> None:
        """Give out no file id below this one.

        :raises OSError: disk error.
        """
        self._opened().skip_to(upto)

    @property
    def next_name(self) -> int:
        """File ids from this one on were not given out by this process."""
        return self._opened().next_number

    def read(self, file_id: int) -> IContentReader:
        """Open a content file.

        :raises FileNotFoundError: there is none.
        :raises OSError: it cannot be opened.
        """
        return self._disk.reader(f"{self._root}/{content_path(file_id)}")

    def is_intact(self, file_id: int, size_bytes: int, md5: str) -> bool:
        """Whether a content file exists with this content.  Blocks: call it in a thread."""
        return not fault_of(self.path, file_id, size_bytes, md5, lambda _: None, self._disk)

    def reserve(self) -> int:
        """Allocate a file id, and make the folder of its attempts.

        :raises OSError: no further ids can be reserved at present.
        """
        file_id = self._opened().next()
        folder = attempt_path(file_id, 0).rpartition("/")[0]
        if folder != self._attempts_now:
            self._disk.make_folder(f"{self._root}/{folder}", _FOLDER_MODE)
            self._attempts_now = folder
        return file_id

    def attempt(self, file_id: int, attempt: int) -> str:
        """Path of this attempt at this file, relative to the folder."""
        return attempt_path(file_id, attempt)

    def attempt_bytes(self, attempt: str) -> int:
        """The current length of this attempt's file; 0: no file."""
        try:
            reader = self._disk.reader(f"{self._root}/{attempt}")
        except OSError:
            return 0
        try:
            return reader.size_bytes
        finally:
            reader.close()

    def accept(self, attempt: str, file_id: int) -> None:
        """Rename a complete attempt to the content file.

        :raises OSError: the attempt is missing or cannot be renamed.
        """
        source, target = f"{self._root}/{attempt}", f"{self._root}/{content_path(file_id)}"
        try:
            self._disk.rename(source, target)
        except FileNotFoundError:
            # The first of a thousand in its folder, or the attempt is missing: the second try tells.
            self._disk.make_folder(target.rpartition("/")[0], _FOLDER_MODE)
            self._disk.rename(source, target)

    def discard(self, attempt: str) -> None:
        """Remove an attempt's file, if there is one."""
        try:
            self._disk.remove(f"{self._root}/{attempt}")
        except OSError:
            pass  # what cannot be removed now goes at the next start

    def remove(self, file_id: int) -> bool:
        """Remove a content file; False: there was none.

        :raises OSError: it is there and cannot be removed.
        """
        return self._disk.remove(f"{self._root}/{content_path(file_id)}")

    def _opened(self) -> Counter:
        if self._counter is None:
            raise RuntimeError("the content folder is not open")
        return self._counter


@implementer(IFetchingNote)
class AttemptFolder:
    """The content folder for a robot, which only writes attempts, and locks a file while it may be fetching.

    :param lock: as :attr:`lcc.services.process.environment.Environment.lock`; None: it locks nothing.
    """

    def __init__(self, path: Path, disk: Disk = DISK, lock: Callable[[Path], IService] | None = None) -> None:
        self.path = path
        self._root = str(path)
        self._disk = disk
        self._make_lock = lock
        self._locks: dict[str, IService] = {}

    def owner(self) -> str:
        """The run of the BOT-M that opened this folder last; empty: none, or unreadable."""
        try:
            return self._disk.read(f"{self._root}/{OWNER}")[:_OWNER_BYTES].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def begin_fetching(self, run: str) -> None:
        """The robot of this run may be fetching from now on.

        :raises OSError: that cannot be told: the BOT-M has not opened this folder, or disk error.
        """
        if self._make_lock is None or run in self._locks:
            return
        path = self.path / ROBOTS / run
        self._disk.patch(path, 0, b"", create=True)
        lock = self._make_lock(path)
        try:
            lock.startService()
        except Busy as error:
            raise OSError(str(error)) from error
        except OSError:
            with suppress(OSError):  # nobody else can lock it, either
                self._disk.remove(path)
            raise
        self._locks[run] = lock

    def end_fetching(self, run: str) -> None:
        """It has ended all its fetches."""
        lock = self._locks.pop(run, None)
        if lock is not None:
            with suppress(OSError):  # the BOT-M finds it unlocked
                self._disk.remove(self.path / ROBOTS / run)
            lock.stopService()

    def sink(self, attempt: str) -> ContentSink:
        """A sink for this attempt.

        :param attempt: as the BOT-M named it.
        :raises OSError: not the path of an attempt.
        """
        if not is_attempt(attempt):
            raise PermissionError(f"{attempt[:100]!r} is not the path of an attempt")
        return ContentSink(f"{self._root}/{attempt}", self._disk)


@implementer(IAttemptFile)
class ContentSink:
    """Writes and hashes one attempt.

    The file is made at the first write (most failures never write), or for an empty content at the close.  Every
    piece goes straight to the kernel.
    """

    __slots__ = ("_descriptor", "_disk", "_ended", "_hash", "_made", "_path", "size_bytes")

    def __init__(self, path: str, disk: Disk = DISK) -> None:
        self._path = path
        self._disk = disk
        self._descriptor: int | None = None
        self._made = False
        self._ended = False
        self._hash = md5(usedforsecurity=False)
        self.size_bytes = 0

    @property
    def md5(self) -> str:
        """Of what was written so far, 32 lower-case hexadecimal digits."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Append content.

        :raises OSError: disk error.
        """
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._create()
        self._hash.update(data)
        length = len(data)
        self.size_bytes += length
        written = self._disk.append(descriptor, data)
        while written < length:  # a disk that fills up takes a part, and refuses the rest
            data = data[written:]
            length = len(data)
            written = self._disk.append(descriptor, data)

    def close(self) -> None:
        """The content is complete.

        :raises OSError: disk error.
        """
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._create()
        self._descriptor = None
        self._ended = True
        self._disk.end(descriptor)

    def discard(self) -> None:
        """Remove the file, also after :meth:`close`.  Never fails."""
        descriptor, self._descriptor = self._descriptor, None
        self._ended = True
        try:
            if descriptor is not None:
                self._disk.end(descriptor)
        except OSError:
            pass
        if self._made:
            self._made = False
            try:
                self._disk.remove(self._path)
            except OSError:
                pass  # the BOT-M removes what is left over

    def _create(self) -> int:
        if self._ended:
            raise OSError("this attempt is closed")
        descriptor = self._descriptor = self._disk.begin(self._path)
        self._made = True
        return descriptor
