"""What the content of a URL is called in a package: ``PID/HOST/FOLDERS/NAME~KEY.EXTENSION``.

For people as near to the URL as is safe on any file system; ``KEY`` (the URL's key without the provider, as in
``/content/``) makes it unique, whatever was cut off or replaced.  ``~`` stands nowhere else, so no file has the name
of a folder.  Everything fits into the header of the oldest tar (100 bytes of name, 155 of folder).
"""

from __future__ import annotations

import re
from functools import lru_cache
from mimetypes import MimeTypes

FOLDER_BYTES = 150
SEGMENT_BYTES = 60
STEM_BYTES = 40
EXTENSION_BYTES = 10

_UNSAFE = re.compile(r"[^A-Za-z0-9._+=@,%-]")
_TYPES = MimeTypes()  # without the files of this machine: the same name everywhere
_USUAL = {
    "application/xhtml+xml": ".xhtml",
    "application/xml": ".xml",
    "image/jpeg": ".jpg",
    "text/html": ".html",
    "text/plain": ".txt",
}
"""Where Python's table has several, or none."""


def package_name(pid: int, key: bytes, curl: str, mimetype: str) -> tuple[str, str]:
    """The folder and the name, ASCII."""
    address, mark, query = curl.partition("?")
    folder, _, last = address.partition("#")[0].partition("://")[2].rpartition("/")
    stem, dot, suffix = last.rpartition(".")
    suffix = suffix.lower()
    if dot and stem and _type_of(suffix) == mimetype:
        extension = f".{suffix}"
    else:
        stem, extension = last, _extension(mimetype)
    if mark:
        stem = f"{stem}?{query}"
    return _folder(pid, folder), f"{_safe(stem or 'index')[:STEM_BYTES]}~{key.hex()[8:]}{extension}"


def _safe(segment: str) -> str:
    return _UNSAFE.sub(_escape, segment)


def _escape(match: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")])


@lru_cache(maxsize=4096)
def _folder(pid: int, path: str) -> str:
    folder = str(pid)
    for segment in path.split("/"):
        safe = _safe(segment)[:SEGMENT_BYTES] or "_"
        if safe.endswith("."):  # "." and "..", and what some file systems would drop
            safe = f"{safe[:-1]}%2E"
        if len(folder) + 1 + len(safe) > FOLDER_BYTES:
            break
        folder = f"{folder}/{safe}"
    return folder


@lru_cache(maxsize=1024)
def _extension(mimetype: str) -> str:
    found = _USUAL.get(mimetype) or _TYPES.guess_extension(mimetype) or ".bin"
    return found if len(found) <= EXTENSION_BYTES else ".bin"


@lru_cache(maxsize=1024)
def _type_of(suffix: str) -> str | None:
    if not (suffix.isalnum() and suffix.isascii() and len(suffix) < EXTENSION_BYTES):
        return None
    return _TYPES.guess_type(f"x.{suffix}")[0]
