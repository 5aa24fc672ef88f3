"""The fetcher for file: regular files in the folders that the operator allows, and nothing else.

Strategy: the file is first opened as a mere place (``O_PATH``), which blocks on no pipe and wakes no device; what was
reached is judged by the name that the kernel has for it, so that neither a symbolic link nor a race leads out of the
folders; only then it is opened for reading.  It is read piece by piece, a reactor turn each, so that a large file
does not hold up others.  Nothing limits how long the disk may take for a piece: the folders should be on local disks.
A folder is a document to who asks for it (:mod:`lcc.fetchers.folders`).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from twisted.internet.task import deferLater

from lcc.errors import FetchError
from lcc.fetchers.base import CoroutineFetcher, Task
from lcc.fetchers.folders import URI_LIST, Entry, type_of, wants_folders, write_folder
from lcc.model import Fetched

PIECE_BYTES = 65536
ENTRIES_MAX = 100_000
"""Of a folder: more would hold up others."""
_URL = re.compile(r"file://(?:localhost)?(/[^?#]*)(?:#.*)?", re.DOTALL)
_ABSENT = frozenset([errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG])
_REFUSED = frozenset([errno.EACCES, errno.EPERM])


class FileFetcher(CoroutineFetcher):
    """Fetches file URLs."""

    schemes = ("file",)

    async def run(self, task: Task) -> Fetched:
        """As :meth:`lcc.fetchers.base.CoroutineFetcher.run`."""
        order = task.order
        path = file_path(order.url)
        mimetype = type_of(order)
        try:
            is_folder = path.endswith(b"/") and wants_folders(order)
            descriptor = open_inside(path, self.settings.file_folders, is_folder)
            try:
                before = os.fstat(descriptor)
                self.steps.tell("response", f"{before.st_size} bytes")
                if order.conditional and order.etag == version(before):
                    return _fetched(order.url, before, mimetype, unchanged=True)
                if is_folder:
                    write_folder(task, _entries(descriptor))
                    return _fetched(order.url, before, mimetype or URI_LIST)
                task.check_size(before.st_size)
                while piece := os.read(descriptor, PIECE_BYTES):
                    task.write(piece)
                    task.wire_bytes += len(piece)
                    if len(piece) == PIECE_BYTES:
                        await deferLater(self.reactor, 0, lambda: None)
                if version(os.fstat(descriptor)) != version(before):
                    raise FetchError("early-eof", "the file was changed while it was read")
                return _fetched(order.url, before, mimetype)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise refusal(error) from None


def file_path(url: str) -> bytes:
    """The path that a file URL names.

    :raises FetchError: "scheme-unsupported": this is no URL of a file.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise FetchError("scheme-unsupported", f"{url[:200]!a} is no URL of a local file")
    segments = [unquote_to_bytes(segment) for segment in match[1].split("/")]
    for segment in segments:
        # An encoded slash, or dots behind an encoding, could lead out of the root that the URL lies under.
        if segment in (b".", b"..") or any(byte in b"/\0" for byte in segment):
            raise FetchError("scheme-unsupported", f"{segment[:80]!r} in the path")
    return b"/".join(segments)


def open_inside(path: bytes, folders: tuple[str, ...], is_folder: bool = False) -> int:
    """A descriptor for reading this file.

    :param folders: the file must lie in one of them, by the name it has when all symbolic links are followed.
    :param is_folder: it must be a folder, else a regular file.
    :raises FetchError: "file-forbidden".
    :raises OSError: it cannot be opened.
    """
    configured = [os.fsencode(folder).rstrip(b"/") + b"/" for folder in folders]
    real = [os.path.realpath(folder).rstrip(b"/") + b"/" for folder in configured]
    if not path.startswith((*configured, *real)):
        # Not even looked at: whether something is there is nobody's business.
        raise FetchError("file-forbidden", "outside of [bot] file_folders")
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        name = b"/proc/self/fd/%d" % place
        reached = os.readlink(name) + (b"/" if is_folder else b"")  # noqa: PTH115  # bytes
        if not reached.startswith(tuple(real)):
            raise FetchError("file-forbidden", "a link out of [bot] file_folders")
        mode = os.fstat(place).st_mode
        if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
            raise FetchError("file-forbidden", "no folder" if is_folder else "no regular file")
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    finally:
        os.close(place)


def version(state: os.stat_result) -> str:
    """An entity tag that changes whenever the file does: with any change the kernel sets ``ctime`` anew."""
    return f'"{state.st_ino:x}-{state.st_size:x}-{state.st_mtime_ns:x}-{state.st_ctime_ns:x}"'


def _entries(descriptor: int) -> Iterator[Entry]:
    """Files and folders in a folder; links to folders are left out: they could lead in circles.

    :raises FetchError: "body-too-long": there are too many.
    """
    with os.scandir(descriptor) as entries:
        for count, entry in enumerate(entries):
            if count >= ENTRIES_MAX:
                raise FetchError("body-too-long", f"a folder of more than {ENTRIES_MAX} names")
            if not (entry.is_symlink() and entry.is_dir()):
                yield Entry(os.fsencode(entry.name).decode("latin-1"), entry.is_dir(follow_symlinks=False))


def _fetched(url: str, state: os.stat_result, mimetype: str, unchanged: bool = False) -> Fetched:
    modified = max(0, int(state.st_mtime))
    return Fetched(0, url, mimetype, modified=modified, etag=version(state), revalidate=True, unchanged=unchanged)


def refusal(error: OSError) -> FetchError:
    """The error that the system's refusal means; without the path, which is the operator's business."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _ABSENT:
        return FetchError.from_status(404, reason)
    if error.errno in _REFUSED:
        return FetchError.from_status(403, reason)
    return FetchError("server-busy", reason)
