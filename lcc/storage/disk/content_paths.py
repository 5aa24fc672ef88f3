"""Paths of content files and attempts, relative to the content folder (:mod:`lcc.storage.disk.content_folder`)."""

from __future__ import annotations

import re

ATTEMPTS = "attempts"
FOLDER_FILES = 1024
"""Content files in one folder; attempts of as many files have a folder together, too."""
ATTEMPT_FOLDERS = 1024

_ATTEMPT = re.compile(rf"{ATTEMPTS}/[0-9a-f]{{3}}/([0-9a-f]{{12,16}})\.([0-9]{{1,9}})", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{7,11})/([0-9a-f]{3})/([0-9a-f]{12,16})", re.ASCII)


def content_path(file_id: int) -> str:
    """Path of a content file."""
    return f"{file_id >> 20:07x}/{file_id >> 10 & 0x3FF:03x}/{file_id:012x}"


def attempt_path(file_id: int, attempt: int) -> str:
    """Path of the file that this attempt writes."""
    return f"{ATTEMPTS}/{file_id // FOLDER_FILES % ATTEMPT_FOLDERS:03x}/{file_id:012x}.{attempt}"


def nth_attempt(attempt: str, index: int) -> str:
    """The path of the same attempt at the file with this one's id + ``index``.

    :raises OSError: not the path of an attempt.
    """
    match = _ATTEMPT.fullmatch(attempt)
    if match is None:
        raise PermissionError(f"{attempt[:100]!r} is not the path of an attempt")
    return attempt_path(int(match[1], 16) + index, int(match[2]))


def file_of_path(path: str) -> int | None:
    """The file id of a content file's path; None: it is none, or is not where it belongs."""
    match = _FILE.fullmatch(path)
    if match is None:
        return None
    file_id = int(match[3], 16)
    return file_id if content_path(file_id) == path else None


def is_attempt(path: str) -> bool:
    """Whether this is the path of an attempt, and it is where it belongs."""
    match = _ATTEMPT.fullmatch(path)
    return match is not None and attempt_path(int(match[1], 16), int(match[2])) == path
