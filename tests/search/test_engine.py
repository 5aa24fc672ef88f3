"""The search server with a played lcc-cu: what is told is found, whatever happens meanwhile."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail

from lcc.model.metrics import Condition
from lcc.roles.search.console import SearchCommands
from lcc.roles.search.engine import Overloaded
from lcc.roles.search.follower import MISSING_SECONDS
from lcc.roles.search.index import NotOpen
from lcc.roles.search.metrics import SearchMetrics
from lcc.search.checksums import damage
from lcc.search.interfaces import IndexDamaged
from lcc.search.query import parse_query
from tests.search.kit import POISON, SearchWorld, in_thread_now, replace
from tests.support.logs import LoggedErrors
from tests.support.pdf import pdf_with_text
from tests.support.small_disk import SmallDisk, may_mount

URL = "http://www.example.org/"


def put(world: SearchWorld, name: str, content: str | bytes, mimetype: str = "text/html", pid: int = 1) -> None:
    data = content.encode() if isinstance(content, str) else content
    world.lcc.put(pid, URL + name, data, mimetype)


def faults(world: SearchWorld) -> dict[str, str]:
    conditions: list[Condition] = [*SearchMetrics(world.engine).conditions()]
    return {each.name: each.fault for each in conditions if each.fault}


def test_told_searched_changed_searched_deleted_searched(world: SearchWorld) -> None:
    world.advance()
    assert world.urls("first") == []
    put(world, "a", "<title>One</title><p>The first words")
    put(world, "b.pdf", pdf_with_text("first of a document"), "application/pdf")
    put(world, "c.txt", "first, plainly", "text/plain")
    put(world, "d.png", b"first", "image/png")
    world.advance()
    assert world.urls("first") == [URL + "a", URL + "b.pdf", URL + "c.txt"]
    put(world, "a", "<title>One</title><p>Other words")
    world.advance()
    assert world.urls("first") == [URL + "b.pdf", URL + "c.txt"] and world.urls("other title:one") == [URL + "a"]
    world.lcc.delete(1, URL + "a")
    world.advance()
    assert world.urls("other") == [] and world.engine.index.documents == 2
    assert faults(world) == {} and world.engine.follower.is_caught_up


def test_scopes_are_providers(world: SearchWorld) -> None:
    put(world, "a", "<p>words", pid=1)
    put(world, "b", "<p>words", pid=2)
    world.advance()
    assert world.urls("words", frozenset({2})) == [URL + "b"]


def test_what_comes_alone_is_found_at_once_and_what_comes_soon_after_together(tmp_path: Path) -> None:
    world = SearchWorld(tmp_path, commit_interval=2.0)
    world.advance(5)
    commits = world.engine.counters.commits
    put(world, "a", "<p>words")
    world.clock.pump([0] * 10)
    assert world.urls("words") == [URL + "a"]
    for name in "bcdefgh":
        put(world, name, "<p>words")
        world.advance(0.25)
    world.advance(3)
    assert len(world.urls("words")) == 8 and world.engine.counters.commits <= commits + 3
    world.close()


def test_many_pages_are_committed_together(tmp_path: Path) -> None:
    world = SearchWorld(tmp_path, pages_at_once=10)
    world.engine.stop()
    for number in range(95):
        put(world, str(number), f"<p>words {number}")
    world.start()
    world.advance()
    assert len(world.urls("words")) == 95 and world.engine.counters.commits == 1
    assert world.engine.index.state.complete
    world.close()


def test_pages_without_text_are_not_read_again_after_a_restart(world: SearchWorld) -> None:
    world.advance()
    for number in range(20):
        put(world, f"{number}.png", b"a picture", "image/png")
        world.advance(4)
    commits = world.engine.counters.commits
    assert 2 <= commits <= 5
    put(world, "last.png", b"a picture", "image/png")
    world.advance(100, step=1.0)  # nothing more comes
    world.kill()
    world.start()
    read = world.engine.counters.pages
    world.advance(5)
    assert world.engine.counters.pages == read


def test_a_killed_server_goes_on_from_its_last_commit(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    token = world.engine.index.token
    world.kill()
    put(world, "b", "<p>words")
    world.lcc.delete(1, URL + "a")
    read = world.engine.counters.pages
    world.start()
    world.advance()
    assert world.urls("words") == [URL + "b"] and world.engine.index.token > token
    assert read == 1 and world.engine.counters.pages == 2


def test_lcc_cu_is_silent(world: SearchWorld, logged_errors: LoggedErrors) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.lcc.silent = True
    world.lcc._wake()
    put(world, "b", "<p>words")
    world.advance(10)
    assert world.urls("words") and faults(world) == {"reading": "lcc-cu is unreachable"}
    world.lcc.silent = False
    world.advance(10)
    assert world.urls("words") == [URL + "a", URL + "b"] and faults(world) == {}


def test_the_changes_are_no_longer_known(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    put(world, "b", "<p>words")
    world.advance()
    # A backup is put back: the cache never had "b".
    world.kill()
    world.lcc.timeline = "u"
    del world.lcc._rows[next(key for key, row in world.lcc._rows.items() if row.page.row.curl.endswith("b"))]
    world.lcc._change = 1
    world.start()
    world.advance(5)
    assert world.urls("words") == [URL + "a"] and world.engine.index.state.generation == 2


@pytest.mark.parametrize(("before", "after"), [({1, 2}, {1}), ({1}, {1, 2}), (None, {1})])
def test_its_token_may_read_other_providers_than_before(
    world: SearchWorld, before: set[int] | None, after: set[int]
) -> None:
    world.lcc.readable = before
    put(world, "a", "<p>words", pid=1)
    put(world, "b", "<p>words", pid=2)
    world.advance()
    rebuilds = world.engine.counters.rebuilds
    world.lcc.readable = after
    put(world, "c", "<p>words", pid=1)
    world.advance(10)
    assert world.urls("words") == [URL + "a", *([URL + "b"] if 2 in after else []), URL + "c"]
    assert world.engine.counters.rebuilds == rebuilds + 1 and faults(world) == {}
    assert world.engine.index.state.complete and world.engine.index.state.why == ""


def test_pages_that_may_not_be_read_any_longer_are_withdrawn_at_once(
    world: SearchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, "a", "<p>words", pid=2)
    world.advance()
    key = world.search("words").hits[0].key

    def broken(_: Path) -> None:
        raise OSError(30, "Read-only file system")

    world.lcc.readable = {1}
    world.lcc._wake()
    with monkeypatch.context() as patched:
        patched.setattr("lcc.roles.search.index.remove_index", broken)
        world.advance(2)
        with pytest.raises(NotOpen, match="not shown: the pages that it may read are others"):
            world.search("words")
        text: list[Any] = []
        world.engine.index.text(key, 1).addErrback(text.append)
        assert text[0].check(NotOpen)
        assert "others than before" in faults(world)["index"] and "Read-only" in faults(world)["reading"]
    world.engine.pause()  # what comes now is not read
    world.engine.resume()
    world.advance(10)
    assert world.urls("words") == [] and faults(world) == {} and world.engine.index.documents == 0


def test_another_token_shows_nothing_before_the_cache_has_said_whose_pages_it_is_for(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.kill()
    world.read_as = "another"
    world.lcc.silent = True
    world.start()
    world.advance()
    with pytest.raises(NotOpen, match="same pages as the one before"):
        world.search("words")
    assert "index" in faults(world)
    world.lcc.silent = False
    world.advance(10)
    assert world.urls("words") == [URL + "a"] and faults(world) == {} and world.engine.counters.rebuilds == 0
    put(world, "b", "<p>words")
    world.advance()
    world.kill()
    # With the same one it shows what it has.
    world.lcc.silent = True
    world.start()
    world.advance()
    assert world.urls("words") == [URL + "a", URL + "b"]


def test_while_it_is_built_anew_its_condition_says_why(world: SearchWorld) -> None:
    world.lcc.readable = {1, 2}
    put(world, "a", "<p>words")
    world.advance()
    world.lcc.readable = {1}
    world.lcc._wake()
    world.clock.pump([0] * 3)
    index_note = next(each.note for each in SearchMetrics(world.engine).conditions() if each.name == "index")
    assert "being built, because the pages that it may read" in index_note


def test_content_that_cannot_be_had_is_asked_for_again(world: SearchWorld) -> None:
    put(world, "a", "<p>old words")
    world.advance()
    world.lcc.unreadable.add(URL + "a")
    put(world, "a", "<p>new words")
    world.advance()
    assert world.urls("words") == [] and world.engine.index.counts.missing == 1
    world.lcc.unreadable.clear()
    world.advance(2 * MISSING_SECONDS + 5, step=1.0)
    assert world.urls("new") == [URL + "a"] and world.engine.index.counts.missing == 0


def test_once_content_can_be_had_again_all_of_it_is_asked_for(world: SearchWorld) -> None:
    """Of however many pages: they are not asked for in portions a minute apart."""
    pages = [f"a{number:03}" for number in range(120)]
    for name in pages:
        world.lcc.unreadable.add(URL + name)
        put(world, name, "<p>words")
    world.advance()
    assert world.engine.index.counts.missing == len(pages)
    world.lcc.unreadable = {URL + "a001"}
    world.advance(2 * MISSING_SECONDS + 15, step=1.0)
    assert world.engine.index.counts.missing == 1 and len(world.urls("words")) >= 100
    asked: list[Any] = []
    packages = world.lcc.packages

    async def counted(since: str | None = "0", **fields: Any) -> Any:
        asked.extend([fields["key"]] if since is None else [])
        return await packages(since, **fields)

    world.lcc.packages = counted  # type: ignore[method-assign]
    world.advance(5 * MISSING_SECONDS, step=1.0)
    assert 2 <= len(asked) <= 5, "what cannot be had is asked for once a minute"


def test_what_has_changed_since_its_content_was_missing_comes_with_the_changes(world: SearchWorld) -> None:
    """So the index is never ahead of its token: what it has can be lost with a backup that is put back only if the
    token is."""
    world.lcc.unreadable.add(URL + "a")
    put(world, "a", "<p>words")
    world.advance()
    asked = world.lcc.packages

    async def later(since: str | None = "0", **fields: Any) -> Any:
        stream = await asked(since, **fields)
        if since is None:
            stream._pages = [page._replace(row=attrs.evolve(page.row, change=50)) for page in stream._pages]
        return stream

    world.lcc.packages = later  # type: ignore[method-assign]
    world.lcc.unreadable.clear()
    world.advance(2 * MISSING_SECONDS + 5, step=1.0)
    assert world.urls("words") == [] and world.engine.index.counts.missing == 1


def test_a_page_that_ends_its_worker_is_there_without_its_text(
    world: SearchWorld, logged_errors: LoggedErrors
) -> None:
    put(world, "a", b"<p>words " + POISON)
    put(world, "b", "<p>words")
    world.advance(20)
    assert world.urls("words") == [URL + "b"] and world.urls("site:example.org") == [URL + "a", URL + "b"]
    assert world.engine.index.counts.unread == world.engine.counters.unread == 1
    logged_errors.flush("Extraction workers end")


def test_pages_that_ask_not_to_be_found_are_counted(world: SearchWorld) -> None:
    put(world, "a", '<meta name="robots" content="noindex"><p>words')
    world.advance()
    assert world.urls("words") == [] and world.engine.index.counts.hidden == 1


def test_a_full_disk(world: SearchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world, "a", "<p>words")
    world.advance()

    def full(*_: Any) -> Deferred[Any]:
        return fail(OSError(28, "No space left on device"))

    apply = world.engine.index.apply
    monkeypatch.setattr(world.engine.index, "apply", full)
    put(world, "b", "<p>words")
    world.advance(10)
    assert world.urls("words") == [URL + "a"] and "No space" in faults(world)["reading"]
    monkeypatch.setattr(world.engine.index, "apply", apply)
    world.advance(10)
    assert world.urls("words") == [URL + "a", URL + "b"] and faults(world) == {}


def test_files_that_cannot_be_written(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    chance = Random(1)
    text = " ".join(f"{chance.randrange(1 << 60):x}" for _ in range(10_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        put(world, "b", f"<p>words {text}")
        world.advance(10)
        assert world.urls("words") == [URL + "a"] and "cannot write the index" in faults(world)["reading"]
        put(world, "c", "<p>words")
        world.advance(10)
        assert world.urls("words") == [URL + "a"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    world.advance(10)
    assert faults(world) == {} and world.urls("words") == [URL + "a", URL + "b", URL + "c"]
    assert world.engine.counters.rebuilds == 0 and damage(world.engine.index.folder) == ""


@pytest.mark.skipif(not may_mount(), reason="this process may not mount")
def test_a_disk_that_is_full(logged_errors: LoggedErrors) -> None:
    disk = SmallDisk(16 << 20)
    world = SearchWorld(disk.path / "search")
    chance = Random(2)
    try:
        put(world, "a", "<p>words")
        world.advance()
        disk.fill(64 << 10)
        for name in "bcd":
            put(world, name, "<p>words " + " ".join(f"{chance.randrange(1 << 60):x}" for _ in range(10_000)))
        world.advance(10)
        assert world.urls("words") == [URL + "a"] and " MiB free): " in faults(world)["reading"]
        # What may not be shown is not, even if there is no room for an index without it.
        world.lcc.readable = {2}
        world.lcc._wake()
        disk.fill()
        world.advance(15)
        with pytest.raises(NotOpen):
            world.search("words")
        disk.make_room()
        world.lcc.readable = None
        world.advance(15)
        assert world.urls("words") == [URL + name for name in "abcd"] and faults(world) == {}
    finally:
        world.close()
        disk.close()


def test_a_damaged_index_is_built_anew(world: SearchWorld, logged_errors: LoggedErrors) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.kill()
    for file in world.engine.index.folder.glob("*.store"):
        replace(file, file.read_bytes()[:-1])
    world.start()
    world.advance()
    assert world.urls("words") == [URL + "a"] and world.engine.counters.rebuilds == 1
    (said,) = logged_errors.flush("Building the index anew")
    kept = world.folder / "index.damaged"
    assert f"kept as {kept} (" in said and "MiB)" in said and (kept / "meta.json").exists()


def test_damage_that_only_its_checksum_shows(world: SearchWorld, logged_errors: LoggedErrors) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.kill()
    for file in world.engine.index.folder.glob("*.pos"):
        replace(file, bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    world.start()
    world.advance()
    assert world.urls("words") == [URL + "a"] and world.engine.counters.rebuilds == 1
    assert faults(world) == {} and logged_errors.flush("is damaged")
    assert damage(world.folder / "index.damaged") and not (world.folder / "index.old").exists()


def test_one_damaged_index_is_kept_if_there_is_room(
    world: SearchWorld, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    kept = world.folder / "index.damaged"

    def damaged_again() -> None:
        world.kill()
        (world.folder / "index" / "meta.json").write_text("{")
        world.start()
        world.advance()

    put(world, "a", "<p>words")
    world.advance()
    damaged_again()
    (kept / "first").touch()
    damaged_again()
    assert kept.is_dir() and not (kept / "first").exists()
    no_room = shutil.disk_usage(world.folder)._replace(free=0)
    monkeypatch.setattr("lcc.search.folders.shutil.disk_usage", lambda _: no_room)
    damaged_again()
    assert not kept.exists() and world.urls("words") == [URL + "a"]
    assert len(logged_errors.flush("Building the index anew")) == 3


def test_an_index_of_another_version_is_not_kept(
    world: SearchWorld, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.kill()
    monkeypatch.setattr("lcc.search.index.FORMAT", 1_000_000)
    world.start()
    world.advance()
    assert world.urls("words") == [URL + "a"] and not (world.folder / "index.damaged").exists()
    assert logged_errors.flush("it is of another version")


def test_what_a_killed_rebuild_leaves_is_removed(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.kill()
    old = world.folder / "index.old"
    shutil.copytree(world.folder / "index", old)
    world.start()
    world.advance()
    assert not old.exists() and world.urls("words") == [URL + "a"]
    # It was killed before the new one was there.
    world.kill()
    (world.folder / "index").rename(old)
    world.start()
    world.advance()
    assert not old.exists() and world.urls("words") == [URL + "a"]


def test_damage_that_a_search_meets(
    world: SearchWorld, monkeypatch: pytest.MonkeyPatch, logged_errors: LoggedErrors
) -> None:
    put(world, "a", "<p>words")
    world.advance()

    class PanicException(BaseException):
        """As tantivy raises it."""

    def panics(*_: Any) -> Any:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(world.engine.index._index, "_search", panics)
    with pytest.raises(IndexDamaged, match="index out of bounds"):
        world.search("words")
    world.advance()
    assert world.urls("words") == [URL + "a"] and logged_errors.flush("out of bounds")


def test_an_operator_wants_a_new_index(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.wants_rebuild = True
    world.advance()
    assert not world.wants_rebuild
    assert world.urls("words") == [URL + "a"] and world.engine.counters.rebuilds == 1


def test_paused(world: SearchWorld) -> None:
    commands = SearchCommands(world.engine)
    world.advance()
    assert dict(commands.est())["search server"] == "answers queries"
    commands.pause()
    put(world, "a", "<p>words")
    world.advance(5)
    assert world.urls("words") == [] and "not-paused" in faults(world)
    assert "PAUSED" in dict(commands.est())["search server"]
    commands.resume()
    world.advance()
    assert world.urls("words") == [URL + "a"]


def test_too_many_queries(world: SearchWorld) -> None:
    world.advance()
    held: list[Deferred[Any]] = []

    def hold(*_: Any) -> Deferred[Any]:
        held.append(Deferred())
        return held[-1]

    world.in_thread = hold
    query = parse_query("words", "", 0)
    asked = [
        Deferred.fromCoroutine(world.engine.search(query, None, 10))
        for _ in range(world.settings.queries_at_once + world.settings.queries_waiting)
    ]
    assert len(held) == world.settings.queries_at_once
    with pytest.raises(Overloaded):
        world.search("words")
    assert world.engine.counters.refused == 1
    for each in asked:
        each.addErrback(lambda failure: None)
        each.cancel()


def test_before_it_is_open(tmp_path: Path) -> None:
    world = SearchWorld(tmp_path)
    world.engine.stop()
    with pytest.raises(NotOpen):
        world.search("words")
    world.close()


def test_metrics_and_readings(world: SearchWorld) -> None:
    put(world, "a", "<p>words")
    world.advance()
    world.search("words")
    readings = {reading.metric.name: reading.series[0][1] for reading in SearchMetrics(world.engine).readings()}
    assert readings["lcc_search_documents"] == readings["lcc_search_pages_indexed"] == 1
    assert [each.note for each in SearchMetrics(world.engine).conditions() if each.note] == [
        "1 page, 0.0 MiB, up to date"
    ]
    assert readings["lcc_search_index_complete"] and readings["lcc_search_lag_seconds"] == 0


def test_lag_is_the_age_of_the_oldest_change_that_cannot_be_found(tmp_path: Path) -> None:
    def lag() -> float:
        by_name = {reading.metric.name: reading.series for reading in SearchMetrics(world.engine).readings()}
        ((_, value),) = by_name["lcc_search_lag_seconds"]
        assert isinstance(value, float)
        return value

    def cached(name: str, ago: float) -> None:
        world.lcc.put(1, URL + name, b"<p>words", confirmed_time=int(world.now() - ago))

    world = SearchWorld(tmp_path, pages_at_once=2)
    world.advance()
    assert lag() == 0.0
    world.kill()
    # While it was not there, pages came.
    cached("a", 300)
    cached("b", 200)
    cached("c", 100)
    world.start()
    held: list[tuple[Deferred[Any], Any]] = []

    def hold(*call: Any) -> Deferred[Any]:
        held.append((Deferred(), call))
        return held[-1][0]

    world.in_thread = hold
    world.clock.pump([0] * 10)
    assert lag() == pytest.approx(300, abs=2) and len(held) == 1
    world.in_thread = in_thread_now
    ((deferred, (function, *arguments)),) = held
    deferred.callback(function(*arguments))
    world.advance(1.0)
    assert lag() == 0.0 and len(world.urls("words")) == 3
    world.advance(100)
    assert lag() == 0.0
    world.lcc.silent = True
    cached("d", 0)
    world.advance(5)
    assert lag() == pytest.approx(5, abs=1)
    world.lcc.silent = False
    world.advance(10)
    assert lag() == 0.0 and len(world.urls("words")) == 4
    world.close()


def test_an_index_that_cannot_be_removed_is_searched_on(world: SearchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    put(world, "a", "<p>words")
    world.advance()

    def broken(_: Path) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr("lcc.roles.search.index.remove_index", broken)
        world.wants_rebuild = True
        world.advance()
        put(world, "b", "<p>words")
        world.advance()
        assert world.urls("words") == [URL + "a", URL + "b"]
    world.advance(10)
    assert not world.wants_rebuild and world.urls("words") == [URL + "a", URL + "b"]
