"""Pages as a spider reads them."""

from __future__ import annotations

from hashlib import md5, sha1
from typing import Any

from lcc.model import CachedUrl
from lcc.model.spider.links import Page


def page(curl: str, content: bytes | str = b"", mimetype: str = "text/html", **more: Any) -> Page:
    """A cached page; ``more`` are fields of its row."""
    data = content.encode() if isinstance(content, str) else content
    row: dict[str, Any] = {
        "key": sha1(curl.encode()).digest(),
        "pid": 7,
        "curl": curl,
        "furl": "",
        "burl": "",
        "mimetype": mimetype,
        "subtype": "",
        "md5": md5(data).hexdigest(),
        "length": len(data),
        "mtime": None,
        "fetched_time": 1_700_000_000,
        "fetched_machineid": 1,
        "fetched_fileid": 1,
        "change": 1,
        "state": "cached",
    }
    return Page(CachedUrl(**row | more), data)
