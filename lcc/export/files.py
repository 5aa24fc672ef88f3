"""Atomic writing of files."""

from __future__ import annotations

import errno
import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lcc.export.leftovers import hold, remove_leftovers


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes this name when the block ends well; whatever had the name stays until then.

    Its content is on the disk before it has the name.  A symbolic link stays: what it names is replaced.

    :raises OSError: it cannot be written, or is a device or something else that cannot be replaced by a file.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "exists, but is not a regular file; write to standard output instead")
    folder = path.parent
    remove_leftovers(folder, f".{glob.escape(path.name)}.*.part")
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            hold(descriptor)
            yield file
            file.flush()
            os.fchmod(descriptor, 0o666 & ~_umask())
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
