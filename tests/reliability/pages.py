"""The pages of the providers of a kill test: their content follows from name and version alone, so that whoever finds
some content can tell what it is."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from random import Random

import attrs

MTIME = 1_600_000_000
_HEAD = re.compile(rb"<html>(\S+) version (\d+)\n")


@lru_cache(4000)
def content(path: str, version: int) -> bytes:
    """What a version of a page looks like: 100 bytes to 60 KB."""
    random = Random(f"{path} {version}")
    size = 10 ** random.uniform(2, 4.8 if random.random() < 0.05 else 3.7)
    words = [f"{random.getrandbits(40):x}" for _ in range(40)]
    text = " ".join(words) * (1 + int(size) // 400)
    return f"<html>{path} version {version}\n{text[: int(size)]}</html>\n".encode()


def version_of(path: str, data: bytes) -> int | None:
    """Which version of this page it is; None: it is none."""
    head = _HEAD.match(data)
    if head is None or head[1].decode() != path:
        return None
    version = int(head[2])
    return version if content(path, version) == data else None


@attrs.define
class Page:
    """One page as its web server has it now.

    :ivar version: grows with each change.
    :ivar exists: False: 404.
    :ivar trouble: what is wrong with it: a status, ``cut`` (the connection is lost in the middle), ``slow``; empty:
        nothing.
    """

    path: str
    version: int = 1
    exists: bool = True
    trouble: str = ""

    def told(self) -> dict[str, str]:
        """What a provider can tell of its content."""
        data = content(self.path, self.version)
        return {
            "md5": hashlib.md5(data).hexdigest(),
            "len": str(len(data)),
            "mtime": str(MTIME + self.version),
        }
