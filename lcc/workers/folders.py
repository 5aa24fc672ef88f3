"""Folders and files of jobs.  It blocks: managers call this in threads."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_MOVED = "lcc-moved-"
_ROUNDS_MAX = 100


def clear(folder: Path) -> None:
    """Remove all that is in a folder: jobs of an earlier run."""
    for path in list(folder.iterdir()):
        remove(str(path))


def remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it, as far as that is possible; follows no link.

    A worker may have made folders deeper than recursion, open files and the length of a path allow.  So each folder
    below the first level is moved up there before its own content is looked at.
    """
    try:
        Path(path).unlink()
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # a folder
    with suppress(OSError):
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        Path(path).rmdir()


def _empty(top: int) -> None:
    moved = 0
    for _ in range(_ROUNDS_MAX):  # more than one only if somebody else is at it
        ahead = os.listdir(top)
        if not ahead:
            return
        while ahead:
            name = ahead.pop()
            with suppress(OSError):
                if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=top)
                    continue
                folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for below in os.listdir(folder):  # noqa: PTH208  # a descriptor
                        with suppress(OSError):
                            if stat.S_ISDIR(os.stat(below, dir_fd=folder, follow_symlinks=False).st_mode):
                                moved += 1
                                up = f"{_MOVED}{moved}"
                                os.rename(below, up, src_dir_fd=folder, dst_dir_fd=top)
                                ahead.append(up)
                            else:
                                os.unlink(below, dir_fd=folder)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
