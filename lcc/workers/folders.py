"""Folders and files of jobs.  It blocks: managers call this in threads."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def clear(folder: Path) -> None:
    """Remove all that is in a folder: jobs of an earlier run."""
    for path in list(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def let_read(path: Path) -> None:
    """Let whoever knows its name read a file."""
    path.chmod(0o444)
