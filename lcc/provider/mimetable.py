"""Which mime type a file has, by its name: what a web server would say of it."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterable

_SERVED = {
    # What the table of the system calls source code, a web server answers as the page that it makes.
    ".php": "text/html",
    ".phtml": "text/html",
    ".shtml": "text/html",
    ".jsp": "text/html",
    ".asp": "text/html",
    ".aspx": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".xht": "application/xhtml+xml",
    ".md": "text/markdown",
    ".webp": "image/webp",
    ".avif": "image/avif",
}
_PACKED = {
    ".gz": "application/gzip",
    ".tgz": "application/gzip",
    ".svgz": "image/svg+xml",
    ".bz2": "application/x-bzip2",
    ".xz": "application/x-xz",
    ".z": "application/x-compress",
    ".br": "application/x-brotli",
    ".zst": "application/zstd",
}


class MimeTable:
    """File names to mime types: Python's table and the system's, corrected for what web servers do.

    :param files: more tables, in the form of Apache's ``mime.types``; they win over everything else.
    :param default: for names that no table knows; '' if they have none.
    """

    def __init__(self, files: Iterable[str] = (), default: str = "") -> None:
        table = mimetypes.MimeTypes()
        loose, strict = table.types_map
        self._types: dict[str, str] = {**loose, **strict, **_SERVED, **_PACKED}
        for name in files:
            own = mimetypes.MimeTypes()
            own.types_map = ({}, {})
            own.read(name)
            self._types.update(own.types_map[1])
        self._default = default

    def type_of(self, name: bytes) -> str:
        """The mime type of a file of this name; '' or the default where none is known."""
        extension = os.path.splitext(name)[1].lower()  # noqa: PTH122  (bytes, and a million of them)
        try:
            return self._types.get(extension.decode("ascii"), self._default) if extension else self._default
        except UnicodeDecodeError:
            return self._default
