"""A content user of a kill test that keeps no copy: it reads listings again and again, and ResourceSync.

``python -m tests.reliability.listings SOCKET FILE``: each listing that was read to its end is a line of JSON in the
file: ``pid`` (0: of all providers), ``began`` and ``ended``, ``pages`` (URL and md5 of each).
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
from lxml import etree

from lcc.client.blocking import Cache, CacheError, UnixConnection

TIMEOUT_SECONDS = 20.0
PAUSE_SECONDS = 2.0
LISTS_EACH = 4
"""Resource lists after each listing."""
_SITEMAPS = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_TERMS = "{http://www.openarchives.org/rs/terms/}"
OK = 200


@attrs.frozen
class Listing:
    """What somebody has read to its end.

    :ivar pid: of its provider; 0: of all.
    :ivar pages: URL and md5.
    """

    pid: int
    began: float
    ended: float
    pages: list[tuple[str, str]]


def listings(path: Path) -> Iterator[Listing]:
    """What stands in such a file."""
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            found = json.loads(line)
            pages = [(url, md5) for url, md5 in found["pages"]]
            yield Listing(found["pid"], found["began"], found["ended"], pages)


def resource_list(socket: str, pid: int) -> list[tuple[str, str]] | None:
    """The pages of a provider's resource list; None: it was not answered."""
    connection = UnixConnection(socket, TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"/resourcesync/{pid}/resourcelist.xml")
        response = connection.getresponse()
        body = response.read()
        if response.status != OK:
            return None
        pages = []
        for url in etree.fromstring(body).iter(f"{_SITEMAPS}url"):
            said, link = url.find(f"{_TERMS}md"), url.find(f"{_TERMS}ln[@rel='via']")
            pages.append((link.get("href"), said.get("hash").removeprefix("md5:")))
        return pages
    except (OSError, http.client.HTTPException, etree.XMLSyntaxError):
        return None
    finally:
        connection.close()


def read(socket: str, path: Path) -> None:
    """Read for ever."""
    random = Random(str(path))
    with Cache(f"unix:{socket}", timeout_seconds=TIMEOUT_SECONDS) as cache, path.open("a", buffering=1) as file:

        def note(pid: int, began: float, pages: list[Any]) -> None:
            file.write(json.dumps({"pid": pid, "began": began, "ended": time.time(), "pages": pages}) + "\n")

        while True:
            time.sleep(PAUSE_SECONDS)
            began = time.time()
            try:
                rows = list(cache.urls())
            except CacheError:
                continue
            note(0, began, [(row["curl"], row["md5"]) for row in rows])
            pids = sorted({row["pid"] for row in rows})
            for pid in random.sample(pids, min(len(pids), LISTS_EACH)):
                began = time.time()
                pages = resource_list(socket, pid)
                if pages is not None:
                    note(pid, began, pages)


if __name__ == "__main__":
    read(sys.argv[1], Path(sys.argv[2]))
