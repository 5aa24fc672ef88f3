"""Folders that are watched: which files are in them, what has changed, by inotify.

*Owns* the watches, one for each folder.

*Strategy.*  A folder is watched before it is listed, so that nothing falls in between: a file may be named twice,
never not at all.  Names of files are collected; whoever takes them looks what is there.  Symbolic links are not
followed (as ``find`` does not), and hidden files are left out, but for ``.well-known``.

*Failures.*  Events that the kernel dropped (IN_Q_OVERFLOW), a root folder that was replaced, and one that has gone
make :attr:`WatchedFolders.lost` true: only a comparison of everything helps then.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from twisted.internet import inotify
from twisted.python.filepath import FilePath

from lcc.commands.errors import Trouble

_OVERFLOW = 0xFFFFFFFF
"""The watch that events are of which the kernel has dropped."""
_MASK = (
    inotify.IN_CLOSE_WRITE
    | inotify.IN_ATTRIB
    | inotify.IN_CREATE
    | inotify.IN_DELETE
    | inotify.IN_MOVED_FROM
    | inotify.IN_MOVED_TO
    | inotify.IN_ONLYDIR
)
_SHOWN = frozenset([b".well-known"])


class FolderFault(Trouble):
    """A folder cannot be watched."""

    usually = "check that it exists and that this user may read it"


class _Notify(inotify.INotify):
    """Twisted's, which would end when a watched folder goes, and does not tell of events that were dropped."""

    def __init__(self, reactor: Any, callback: Callable[[Any, Any, int], None]) -> None:
        super().__init__(reactor)
        self._callbacks = [callback]
        self._watchpoints[_OVERFLOW] = inotify._Watch(FilePath(b"/"), 0, False, self._callbacks)

    def loseConnection(self) -> None:
        """Nobody asks for it but Twisted's own code, when a folder has gone."""

    def add(self, path: bytes, follow: bool) -> None:
        """Watch a folder.

        :param follow: it may be a symbolic link.
        :raises inotify.INotifyError: the kernel does not.
        """
        mask = _MASK if follow else _MASK | inotify.IN_DONT_FOLLOW
        self._addWatch(FilePath(path), mask, False, self._callbacks)

    def drop_below(self, path: bytes) -> None:
        """Watch neither this folder nor what was below it."""
        for each in [found for found in self._watchpaths if _is_below(found.path, path)]:
            self._rmWatch(self._watchpaths[each])

    def end(self) -> None:
        """Watch nothing any more."""
        self.stopReading()
        self.connectionLost(None)


def _is_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder + b"/")


def is_hidden(name: bytes) -> bool:
    """Whether a file or folder of this name is left out."""
    return name.startswith(b".") and name not in _SHOWN


class WatchedFolders:
    """See :mod:`lcc.provider.folders`.

    :param roots: absolute; may be symbolic links themselves.
    :param touched: called when there is something new in :meth:`take`, or something is lost.
    :ivar lost: events are missing.
    """

    def __init__(self, reactor: Any, roots: list[bytes], touched: Callable[[], None]) -> None:
        self._reactor = reactor
        self._roots = roots
        self._touched = touched
        self._notify: _Notify | None = None
        self._identities: dict[bytes, tuple[int, int]] = {}
        self._paths: dict[bytes, None] = {}
        self.lost = True

    def watch(self) -> None:
        """Begin anew: after this nothing is missing but what was before.

        :raises FolderFault: a folder cannot be watched.
        """
        self.end()
        notify = self._notify = _Notify(self._reactor, self._event)
        self._paths.clear()
        self.lost = False
        for root in self._roots:
            try:
                found = Path(os.fsdecode(root)).stat()
            except OSError as error:
                raise FolderFault(f"{os.fsdecode(root)}: {error.strerror}") from None
            if not stat.S_ISDIR(found.st_mode):
                raise FolderFault(f"{os.fsdecode(root)} is not a folder")
            self._identities[root] = found.st_dev, found.st_ino
            for _ in self._walk(root):
                pass  # what is there is found by whoever lists it
        notify.startReading()

    def end(self) -> None:
        """Watch nothing any more."""
        notify, self._notify = self._notify, None
        if notify is not None:
            notify.end()

    def check(self) -> None:
        """Look whether the roots are still what is watched; from time to time."""
        for root, identity in self._identities.items():
            try:
                found = Path(os.fsdecode(root)).stat()
            except OSError:
                found = None
            if found is None or (found.st_dev, found.st_ino) != identity:
                self._lose()

    @property
    def pending(self) -> bool:
        """There is something to :meth:`take`."""
        return bool(self._paths)

    def take(self) -> list[bytes]:
        """Paths of files and folders that were touched since the last time."""
        paths, self._paths = list(self._paths), {}
        return paths

    def files(self, folder: bytes) -> Iterator[bytes]:
        """All files in a folder and below.

        :raises OSError: it cannot be read.
        """
        return _files(folder)

    def _walk(self, folder: bytes) -> Iterator[bytes]:
        """Watch a folder and all below it; gives the files."""
        assert self._notify is not None
        waiting = [folder]
        while waiting:
            place = waiting.pop()
            try:
                self._notify.add(place, place in self._identities)
            except inotify.INotifyError as error:
                number = error.args[1] if len(error.args) > 1 else 0
                if number == errno.ENOSPC:
                    raise FolderFault(
                        f"{os.fsdecode(place)}: this user may watch no more folders",
                        "raise the limit: sysctl fs.inotify.max_user_watches=1048576",
                    ) from None
                continue  # it has gone, or it may not be read: who lists it will see
            try:
                entries = list(os.scandir(place))
            except OSError:
                continue
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path

    def _lose(self) -> None:
        self.lost = True
        self._touched()

    def _event(self, _handle: Any, path: Any, mask: int) -> None:
        if mask & inotify.IN_Q_OVERFLOW:
            self._lose()
            return
        if mask & (inotify.IN_IGNORED | inotify.IN_UNMOUNT):
            return
        name = path.path
        if is_hidden(os.path.basename(name)):  # noqa: PTH119  (bytes)
            return
        if mask & inotify.IN_ISDIR:
            if mask & (inotify.IN_DELETE | inotify.IN_MOVED_FROM) and self._notify is not None:
                self._notify.drop_below(name)
            elif mask & (inotify.IN_CREATE | inotify.IN_MOVED_TO):
                try:
                    self._paths.update(dict.fromkeys(self._walk(name)))
                except FolderFault:
                    self._lose()
                    return
            elif mask & inotify.IN_ATTRIB:
                return
        elif mask & inotify.IN_CREATE and not _is_complete(name):
            return  # who writes it will close it
        self._paths[name] = None
        self._touched()


def _is_complete(path: bytes) -> bool:
    """Whether a file that has just been made is a link to one that was there: nobody closes that."""
    try:
        return os.lstat(path).st_nlink > 1
    except OSError:
        return False


def _files(folder: bytes) -> Iterator[bytes]:
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path


def absolute(folder: str) -> bytes:
    """A folder as it is watched: symbolic links in it are kept, so that one that is changed is noticed."""
    return os.fsencode(Path(os.path.abspath(folder)))  # noqa: PTH100
