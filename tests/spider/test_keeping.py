"""Stores and the frontier agree, whatever is committed; each store fails alone, and gets what it lacks later."""

from __future__ import annotations

import errno
import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import Deferred, DeferredLock, maybeDeferred, succeed
from twisted.internet.task import Clock

from lcc.model.spider.crawls import FrontierBatch, StoreTrouble, StoreWork
from lcc.model.spider.links import Link, PageLinks, StoreSettings
from lcc.roles.spider.backlog import Backlog
from lcc.roles.spider.keeping import RETRY_SECONDS, Keeping
from lcc.spider.stores import warc
from lcc.spider.stores.registry import stores_named
from lcc.storage.disk.file_system import DISK, Disk
from lcc.storage.spider.stores import store_troubles
from lcc.testing.simulated.disk import SimulatedDisk
from tests.support.logs import LoggedErrors
from tests.support.pages import page
from tests.support.roles.spider import SpiderWorld
from tests.support.servers.linked_sites import generate


class Frontier:
    """Knows the places that were committed."""

    def __init__(self) -> None:
        self.committed: dict[str, str] = {}

    def places(self) -> Deferred[dict[str, str]]:
        return succeed(dict(self.committed))

    def commit(self, kept: Any) -> None:
        self.committed.update({name: work.place for name, work in kept.items() if work.place is not None})


class FullDisk(Disk):
    """It is full, for files of some stores.

    :ivar full: names of these.
    """

    def __init__(self) -> None:
        self.full: set[str] = set()

    def write(self, file: Any, data: bytes) -> None:
        if Path(f"/proc/self/fd/{file.fileno()}").readlink().parent.name in self.full:
            super().write(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")
        super().write(file, data)


def in_thread(function: Any, *arguments: Any) -> Deferred[Any]:
    return maybeDeferred(function, *arguments)


def keeping_in(folder: Path, frontier: Any, *names: str, disk: Any = DISK, clock: Any = None) -> Keeping:
    seconds = (clock or Clock()).seconds
    return Keeping(stores_named(names), frontier, folder, disk, StoreSettings(), in_thread, seconds)


def read(number: int) -> tuple[Any, PageLinks]:
    url = f"http://h.example/{number}"
    return page(url, change=number), PageLinks((Link(f"{url}/x"),), title=f"T{number}")


def key(number: int) -> bytes:
    found: bytes = read(number)[0].row.key
    return found


def kept(folder: Path, name: str) -> int:
    (path,) = (folder / name).glob("*.open")
    return len(gzip.decompress(path.read_bytes()).splitlines())


async def test_what_was_not_committed_is_taken_back_from_all_stores(tmp_path: Path) -> None:
    frontier = Frontier()
    keeping = keeping_in(tmp_path, frontier, "links", "text")
    frontier.commit(await keeping.keep([read(1)]))
    await keeping.keep([read(2)])
    keeping.begin_again()  # the commit failed
    frontier.commit(await keeping.keep([read(2)]))
    await keeping.close()
    assert (kept(tmp_path, "links"), kept(tmp_path, "text")) == (2, 2)


async def test_a_power_cut_takes_no_store_with_its_folder() -> None:
    for seed in range(20):
        frontier, disk = Frontier(), SimulatedDisk(Random(seed))
        for number in (1, 2, 3):
            keeping = keeping_in(Path("/home/spider"), frontier, "links", disk=disk)
            frontier.commit(await keeping.keep([read(number)]))
            disk.power_cut()
        path = "/home/spider/links/links-00000001.ndjson.gz.open"
        assert len(gzip.decompress(disk.read(path)).splitlines()) == 3, seed


async def test_a_full_disk_of_one_store_holds_up_no_other(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    frontier, disk, clock = Frontier(), FullDisk(), Clock()
    keeping = keeping_in(tmp_path, frontier, "links", "text", disk=disk, clock=clock)
    frontier.commit(await keeping.keep([read(1)]))
    disk.full.add("text")
    for number in (2, 3):
        done = await keeping.keep([read(number)])
        assert done["text"] == StoreWork(None, "No space left on device", {key(number): number})
        frontier.commit(done)
    (error,) = logged_errors.flush("The store text")
    assert f"cannot write in {tmp_path}/text: No space left on device" in error
    disk.full.clear()
    clock.advance(RETRY_SECONDS - 1)
    assert keeping.behind == ["links"], "it was not asked yet whether this one lacks anything"
    frontier.commit(await keeping.keep([read(4)]))
    clock.advance(2)
    assert keeping.behind == ["links", "text"]
    done = await keeping.keep([read(5)])
    assert (done["text"].fault, [*done["text"].has]) == ("", [key(5)])
    frontier.commit(done)
    frontier.commit(await keeping.keep_in("text", [read(2), read(3), read(4)]))
    keeping.caught_up("text")
    assert keeping.behind == ["links"] and not keeping.faults
    await keeping.close()
    assert (kept(tmp_path, "links"), kept(tmp_path, "text")) == (5, 5)


async def test_a_store_whose_folder_is_none(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    frontier = Frontier()
    keeping = keeping_in(tmp_path, frontier, "links", "text")
    (tmp_path / "text").write_text("no folder")
    done = await keeping.keep([read(1)])
    assert done["links"].place and done["text"].place is None and done["text"].fault == keeping.faults["text"]
    assert logged_errors.flush("The store text cannot write")
    await keeping.close()


async def test_a_store_whose_libraries_are_missing_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    monkeypatch.setattr(warc, "find_spec", lambda name: None)
    done = await keeping_in(tmp_path, Frontier(), "warc").keep([read(1)])
    assert "install lcc[warc]" in done["warc"].fault
    assert logged_errors.flush("install lcc[warc]")


async def test_a_store_with_a_fault_of_its_own_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    keeping = keeping_in(tmp_path, Frontier(), "text", "links")
    (store,) = stores_named(["text"])
    monkeypatch.setattr(type(store), "objects", lambda *_: 1 / 0)
    done = await keeping.keep([read(1)])
    assert done["text"].fault == "ZeroDivisionError: division by zero" and done["links"].place
    assert len(logged_errors.flush("ZeroDivisionError")) == 2, "the second one is for operators"
    await keeping.close()


# Pages that are read while a store gets its backlog.


class Cache:
    """A client of a cache of two pages; while they are on their way, something else takes place."""

    def __init__(self, meanwhile: Any, *numbers: int) -> None:
        self.meanwhile = meanwhile
        self.numbers = numbers

    async def packages(self, since: Any, **asked: Any) -> Any:
        return self

    async def __aiter__(self) -> Any:
        await self.meanwhile()
        for number in self.numbers:
            yield read(number)[0]

    def close(self) -> None:
        pass


class Lacking(Frontier):
    """Knows a backlog, too."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.lacking = {key(number): number for number in numbers}

    def backlog(self, store: str, after: bytes, limit: int) -> Deferred[dict[bytes, int]]:
        return succeed(dict(sorted(each for each in self.lacking.items() if each[0] > after)[:limit]))

    def commit(self, kept: Any) -> None:
        super().commit(kept)
        for work in kept.values():
            self.lacking |= work.lacks
            self.lacking = {each: change for each, change in self.lacking.items() if each not in work.has}


class Extractor:
    def extract(self, pages: Any) -> Deferred[list[PageLinks]]:
        return succeed([PageLinks((), title="of the backlog") for _ in pages])


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("failing", [False, True])
async def test_pages_that_are_read_while_the_backlog_is_worked_off(
    tmp_path: Path, failing: bool, there: bool, logged_errors: LoggedErrors
) -> None:
    frontier, disk, clock, lock = Lacking(1, 2), FullDisk(), Clock(), DeferredLock()
    keeping = keeping_in(tmp_path, frontier, "text", disk=disk, clock=clock)

    async def meanwhile() -> None:
        if failing:
            disk.full.add("text")
        frontier.commit(await keeping.keep([read(1)]))
        disk.full.clear()
        clock.advance(2 * RETRY_SECONDS)

    async def commit(batch: FrontierBatch) -> None:
        frontier.commit(batch.stores)

    given: list[Any] = [frontier, Cache(meanwhile, *((1, 2) if there else ())), Extractor(), keeping, lock, commit]
    await Backlog(*given, 1000, 1000).work_off()
    assert frontier.lacking == ({key(1): 1, key(2): 2} if failing else {}), "what came meanwhile may be newer"
    if failing:
        assert logged_errors.flush("The store text cannot write")
        given[1] = Cache(nothing, 1, 2)
        await Backlog(*given, 1000, 1000).work_off()
    await keeping.close()
    assert not frontier.lacking and keeping.behind == []
    urls = [line["url"] for line in lines(tmp_path / "text")]
    assert sorted(urls) == [read(number)[0].row.curl for number in ((1, 2) if there or failing else (1,))], "once"


async def nothing() -> None:
    """Nothing takes place."""


async def test_a_page_that_has_changed_is_kept_once_it_is_read(tmp_path: Path) -> None:
    """The version that was missed is gone; the new one comes with the changes, perhaps to another spider."""
    frontier = Lacking(1, 2)
    frontier.lacking[key(1)] = 0  # an earlier version than that of the cache
    keeping = keeping_in(tmp_path, frontier, "text")

    async def commit(batch: FrontierBatch) -> None:
        frontier.commit(batch.stores)

    given: list[Any] = [frontier, Cache(nothing, 1, 2), Extractor(), keeping, DeferredLock(), commit]
    await Backlog(*given, 1000, 1000).work_off()
    assert not frontier.lacking and keeping.behind == []
    frontier.commit(await keeping.keep([read(1)]))
    await keeping.close()
    assert [line["change"] for line in lines(tmp_path / "text")] == [2, 1]


# With a crawl.

ROOTS = ("http://one.example/", "http://two.example/")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for path in sorted(folder.iterdir())
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]


@pytest.mark.parametrize("killed", [False, True])
def test_a_store_that_could_not_write_gets_all_pages_later(
    tmp_path: Path, killed: bool, logged_errors: LoggedErrors
) -> None:
    sites = generate(3, ROOTS, pages=30, links=5)
    web = {url: sites.html(url).encode() for url in sites.links}
    world = SpiderWorld(tmp_path, web, stores=("links", "text"), window=10)
    try:
        world.lcc.robots_of = {root: sites.robots(root) for root in sites.roots}
        spider = world.start()
        text = tmp_path / "spider" / "text"
        text.parent.mkdir()
        text.write_text("no folder")
        world.add("all", sites.start, restrict_to=r"http://(one|two)\.example/")
        world.settle("all")
        closure = sites.closure()
        edges = {(line["source"], line["target"]) for line in lines(text.parent / "links")}
        assert edges == sites.edges(closure), "the crawl and the other store go on"
        (trouble,) = troubles(world)
        assert trouble == StoreTrouble("spider", "text", trouble.fault, len(closure)) and trouble.fault
        if killed:
            world.kill(spider)
            world.start()
        gone = max(closure)
        world.lcc.delete(1 if gone.startswith(ROOTS[0]) else 2, gone)
        world.advance(2 * RETRY_SECONDS)
        assert troubles(world)[0].backlog == len(closure)
        text.unlink()
        world.advance(2 * RETRY_SECONDS)
        assert troubles(world) == []
        found = [line["url"] for line in lines(text)]
        assert sorted(found) == sorted(closure - {gone}), "each once"
        counts = world.status("all").counts
        assert counts["pages"] == len(closure), "they were not read once more by the crawl"
        assert len(logged_errors.flush("The store text cannot write")) == 1 + killed, "once"
    finally:
        world.close()


def troubles(world: SpiderWorld) -> list[StoreTrouble]:
    found: list[list[StoreTrouble]] = []
    world.database.interact(store_troubles).addCallback(found.append)
    return found[0]
