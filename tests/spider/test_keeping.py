"""Stores and the frontier agree, whatever is committed and whichever store fails."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred, succeed

from lcc.errors import StoreUnavailable
from lcc.model.links import Link, PageLinks, StoreSettings
from lcc.roles.spider.keeping import Keeping
from lcc.spider.stores import warc
from lcc.spider.stores.registry import stores_named
from lcc.storage.disk.file_system import DISK
from tests.support.pages import page


class Frontier:
    """Knows the places that were committed."""

    def __init__(self) -> None:
        self.committed: dict[str, str] = {}

    def places(self) -> Deferred[dict[str, str]]:
        return succeed(dict(self.committed))


def in_thread(function: Any, *arguments: Any) -> Deferred[Any]:
    return maybeDeferred(function, *arguments)


def keeping_in(folder: Path, frontier: Any, *names: str) -> Keeping:
    return Keeping(stores_named(names), frontier, folder, DISK, StoreSettings(), in_thread)


def read(number: int) -> tuple[Any, PageLinks]:
    url = f"http://h.example/{number}"
    return page(url, change=number), PageLinks((Link(f"{url}/x"),), title=f"T{number}")


def kept(folder: Path, name: str) -> int:
    (path,) = (folder / name).glob("*.open")
    return len(gzip.decompress(path.read_bytes()).splitlines())


async def test_what_was_not_committed_is_taken_back_from_all_stores(tmp_path: Path) -> None:
    frontier = Frontier()
    keeping = keeping_in(tmp_path, frontier, "links", "text")
    frontier.committed.update(await keeping.keep([read(1)]))
    await keeping.keep([read(2)])
    keeping.begin_again()  # the commit failed
    frontier.committed.update(await keeping.keep([read(2)]))
    await keeping.close()
    assert (kept(tmp_path, "links"), kept(tmp_path, "text")) == (2, 2)


async def test_while_a_store_cannot_write_no_other_has_more(tmp_path: Path) -> None:
    frontier = Frontier()
    keeping = keeping_in(tmp_path, frontier, "links", "text")
    (tmp_path / "text").write_text("no folder")
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match=f"the store text in {tmp_path}/text: "):
            await keeping.keep([read(1)])
    (tmp_path / "text").unlink()
    frontier.committed.update(await keeping.keep([read(1)]))
    await keeping.close()
    assert (kept(tmp_path, "links"), kept(tmp_path, "text")) == (1, 1)


async def test_a_store_whose_libraries_are_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warc, "find_spec", lambda name: None)
    with pytest.raises(StoreUnavailable, match=r"warc.*install lcc\[warc\]"):
        await keeping_in(tmp_path, Frontier(), "warc").keep([read(1)])
