"""Reads a content folder from end to end, in the order of the ids, a folder of 1024 files at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from lcc.storage.disk.content_folder import MARK, OWNER, ROBOTS
from lcc.storage.disk.content_paths import ATTEMPTS, FOLDER_FILES, file_of_path, is_attempt
from lcc.storage.disk.content_sync import SYNCED

COUNTER = "counter"
_OWN = frozenset([ATTEMPTS, MARK, OWNER, ROBOTS, COUNTER, SYNCED, "lost+found"])
_UPPER = re.compile(r"[0-9a-f]{7,11}", re.ASCII)
_LOWER = re.compile(r"[0-9a-f]{3}", re.ASCII)


@attrs.frozen
class Leaf:
    """A folder of content files.

    :ivar first: no file before this one belongs in it, nor one from ``first + 1024`` on.
    """

    first: int
    files: frozenset[int]

    @property
    def upto(self) -> int:
        """The first id that belongs elsewhere."""
        return self.first + FOLDER_FILES


def leaves(folder: Path, strays: list[str]) -> Iterator[Leaf]:
    """The folders of content files, by their ids.  What is gone by the time that it is looked at is passed over.

    :param strays: gets the paths, relative to the folder, of what does not belong there.
    :raises OSError: the folder cannot be read.
    """
    for upper in _names(folder):
        if upper in _OWN or upper.endswith(".new"):
            continue
        if not _UPPER.fullmatch(upper) or not (folder / upper).is_dir():
            strays.append(upper)
            continue
        for lower in _names(folder / upper):
            path = folder / upper / lower
            if _LOWER.fullmatch(lower) and path.is_dir():
                yield _leaf(path, f"{upper}/{lower}", strays)
            else:
                strays.append(f"{upper}/{lower}")


def _leaf(path: Path, name: str, strays: list[str]) -> Leaf:
    files: list[int] = []
    for each in _names(path):
        file = file_of_path(f"{name}/{each}")
        if file is None:
            strays.append(f"{name}/{each}")
        else:
            files.append(file)
    upper, lower = name.split("/")
    return Leaf((int(upper, 16) << 20) + (int(lower, 16) << 10), frozenset(files))


def attempts(folder: Path, strays: list[str]) -> list[str]:
    """The attempts that are there, as they are named in orders (parameters as of :func:`leaves`)."""
    found: list[str] = []
    for lower in _names(folder / ATTEMPTS):
        path = f"{ATTEMPTS}/{lower}"
        if not _LOWER.fullmatch(lower) or not (folder / path).is_dir():
            strays.append(path)
            continue
        for name in _names(folder / path):
            (found if is_attempt(f"{path}/{name}") else strays).append(f"{path}/{name}")
    return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except FileNotFoundError:
        return []


def names_upto(folder: Path) -> int:
    """File ids from this one on were never given out, as far as the BOT-M would know if it were started now; 0: that
    is not known."""
    try:
        text = (folder / COUNTER).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return 1  # no name was given out yet, or the counter is lost
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() else 0
