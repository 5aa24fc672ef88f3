"""The fetcher for file: regular files in the folders that the operator allows, and nothing else.

Strategy: the file is first opened as a mere place (``O_PATH``), which blocks on no pipe and wakes no device; what was
reached is judged by the name that the kernel has for it, so that neither a symbolic link nor a race leads out of the
folders; only then it is opened for reading.  It is read piece by piece, a reactor turn each, so that a large file
does not hold up others.  Nothing limits how long the disk may take for a piece: the folders should be on local disks.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from urllib.parse import unquote_to_bytes

from twisted.internet.task import deferLater

from lcc.errors import FetchError
from lcc.fetchers.base import CoroutineFetcher, Task
from lcc.model import Fetched

PIECE_BYTES = 65536
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
        try:
            descriptor = open_inside(path, self.settings.file_folders)
            try:
                before = os.fstat(descriptor)
                self.steps.tell("response", f"{before.st_size} bytes")
                if order.conditional and order.etag == version(before):
                    return _fetched(order.url, before, unchanged=True)
                task.check_size(before.st_size)
                while piece := os.read(descriptor, PIECE_BYTES):
                    task.write(piece)
                    task.wire_bytes += len(piece)
                    if len(piece) == PIECE_BYTES:
                        await deferLater(self.reactor, 0, lambda: None)
                if version(os.fstat(descriptor)) != version(before):
                    raise FetchError("early-eof", "the file was changed while it was read")
                return _fetched(order.url, before)
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


def open_inside(path: bytes, folders: tuple[str, ...]) -> int:
    """A descriptor for reading this file.

    :param folders: the file must lie in one of them, by the name it has when all symbolic links are followed.
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
        if not os.readlink(name).startswith(tuple(real)):  # noqa: PTH115  # bytes
            raise FetchError("file-forbidden", "a link out of [bot] file_folders")
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise FetchError("file-forbidden", "no regular file")
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    finally:
        os.close(place)


def version(state: os.stat_result) -> str:
    """An entity tag that changes whenever the file does: with any change the kernel sets ``ctime`` anew."""
    return f'"{state.st_ino:x}-{state.st_size:x}-{state.st_mtime_ns:x}-{state.st_ctime_ns:x}"'


def _fetched(url: str, state: os.stat_result, unchanged: bool = False) -> Fetched:
    modified = max(0, int(state.st_mtime))
    return Fetched(0, url, modified=modified, etag=version(state), revalidate=True, unchanged=unchanged)


def refusal(error: OSError) -> FetchError:
    """The error that the system's refusal means; without the path, which is the operator's business."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _ABSENT:
        return FetchError.from_status(404, reason)
    if error.errno in _REFUSED:
        return FetchError.from_status(403, reason)
    return FetchError("server-busy", reason)
