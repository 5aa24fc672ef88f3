"""What the tests of packages share: a cache with content behind a real content port, and packages read by others."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from hashlib import md5
from typing import Any

from lcc.domain.keys import url_key
from tests.support.servers.content_host import ContentHost

from .cache import Cache

A = "http://a.example.org/"


def put(
    cache: Cache, host: ContentHost | None, curl: str, data: bytes, mimetype: str = "text/html", **more: Any
) -> str:
    """Cache this; its key."""
    if host is not None:
        more = {"fetched_fileid": host.add(data), **more}
    pid = more.pop("pid", 1)
    cache.put(pid, curl, mimetype, **{"len": len(data), "md5": md5(data).hexdigest(), **more})
    return url_key(pid, curl, mimetype).hex()


class Unpacked:
    """A tar, as Python's own module reads it.

    :ivar files: name -> content.
    :ivar rows: of all manifests.
    :ivar end: the end mark.
    """

    def __init__(self, data: bytes) -> None:
        self.files: dict[str, bytes] = {}
        self.rows: list[dict[str, Any]] = []
        self.times: dict[str, float] = {}
        self.manifests: list[str] = []
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for member in tar:
                assert member.isfile() and member.mode == 0o644
                file = tar.extractfile(member)
                assert file is not None
                content = file.read()
                last = member.name
                if member.name.startswith("manifest/"):
                    self.manifests.append(member.name)
                    rows = [json.loads(line) for line in content.splitlines()]
                    if member.name != "manifest/end.json":
                        self.rows += rows
                    else:
                        (self.end,) = rows
                else:
                    assert member.name not in self.files
                    self.files[member.name] = content
                    self.times[member.name] = member.mtime
        assert last == "manifest/end.json"

    def contents(self) -> dict[str, bytes]:
        """Conceptual URL -> content, by the manifests; each row's file must be there."""
        named = {row["curl"]: self.files[row["file"]] for row in self.rows if row["file"] is not None}
        assert len(self.files) == sum(row["file"] is not None for row in self.rows) == self.end["files"]
        return named
