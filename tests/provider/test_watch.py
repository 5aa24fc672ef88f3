"""lccwatch: files change under real inotify, and a scripted UNS hears of it over real connections."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import IPv4Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.inotify import IN_Q_OVERFLOW
from twisted.internet.testing import MemoryReactorClock
from twisted.internet.threads import deferToThread

from lcc.client.conversation import Conversation
from lcc.provider import watcher
from lcc.provider.files import Describer
from lcc.provider.folders import absolute
from lcc.provider.mimetable import MimeTable
from lcc.provider.statefile import UNSURE, Journal, StateDamaged, StateEntry, StateFile, StateWriter
from lcc.provider.submitter import Orders
from lcc.provider.watcher import Folder, Watcher
from lcc.roles.uns.port import ProviderPort
from tests.support.roles.uns import PASSWORD, World
from tests.support.servers.uns import Script, listening
from tests.support.transports import Wire
from tests.support.waiting import until


class Site:
    """A folder that is watched, and what the UNS has heard of it.

    :ivar known: conceptual URLs that it was told of and that were not deleted.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "site"
        self.root.mkdir()
        self.state = StateFile(folder / "state.txt")
        self.script = Script(stays=True)
        self._running: Deferred[None] | None = None
        self.watcher: Watcher
        self._ended: list[bool] = []

    @property
    def known(self) -> set[str]:
        found: dict[str, bool] = {}
        for _, elements in self.script.sets:
            for element in elements:
                found[element["c"]] = element.get("op") != "delete"
        return {name for name, there in found.items() if there}

    @property
    def last(self) -> list[str]:
        """Of what the last set tells, as far as it has come."""
        return [element["c"] for element in self.script.sets[-1][1]] if self.script.sets else []

    def write(self, name: str, text: str = "page") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    async def start(self, **options: Any) -> None:
        """Until everything has been compared once."""
        before = len(self.script.inits)
        self.watch(**options)
        await until(lambda: len(self.script.inits) >= before + 2)  # the comparison, and what stays open

    def watch(self, **options: Any) -> None:
        orders = Orders(
            f"127.0.0.1:{self.script.port}", 1, "pw", "http://site/", 10.0, 0, 5, True, program="lccwatch"
        )
        self.watcher = Watcher(
            reactor,
            orders,
            self.state,
            [Folder(absolute(str(self.root)))],
            Describer(MimeTable((), "")),
            deferToThread,
            options.get("allow_mass_delete", False),
            options.get("compare_seconds", 3600.0),
        )
        self._ended = []
        running: Deferred[None] = Deferred.fromCoroutine(self.watcher.run())
        running.addErrback(lambda failure: failure.trap(CancelledError) and None)
        self._running = running.addBoth(lambda _: self._ended.append(True))

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await until(lambda: bool(self._ended))
            self._running = None


@contextmanager
def watched(folder: Path) -> Any:
    site = Site(folder)
    with listening(reactor, site.script):
        yield site


def in_site(test: Callable[[Site], Awaitable[None]]) -> Callable[[Path], Any]:
    """A test that is given a site, which is watched no longer afterwards."""

    @pytest_twisted.ensureDeferred
    async def run(tmp_path: Path) -> None:
        with watched(tmp_path) as site:
            try:
                await test(site)
            finally:
                await site.stop()

    run.__name__ = test.__name__
    return run


@in_site
async def test_files_are_told_as_they_change(site: Site) -> None:
    site.write("a.html")
    await site.start()
    assert site.known == {"a.html"}
    logins = len(site.script.inits)
    site.write("b.html")
    await until(lambda: site.known == {"a.html", "b.html"})
    site.write("a.html", "changed")
    await until(lambda: site.last == ["a.html"])
    (site.root / "b.html").rename(site.root / "c.html")
    await until(lambda: site.known == {"a.html", "c.html"})
    (site.root / "a.html").unlink()
    await until(lambda: site.known == {"c.html"})
    assert len(site.script.inits) == logins  # one connection that stays open
    assert {begin.urlprefix for begin, _ in site.script.sets} == {"http://site/"}


def test_the_uns_drops_who_says_nothing(tmp_path: Path) -> None:
    world = World(tmp_path / "spool")
    conversation = Conversation(world.clock, 7, PASSWORD, "", lambda gone: None)
    server: Any = ProviderPort(world.uns).buildProtocol(IPv4Address("TCP", "192.0.2.1", 1))
    wire = Wire(conversation.factory().buildProtocol(None), server)

    def pass_time(seconds: float) -> None:
        world.clock.advance(seconds)
        for _ in range(5):
            world.pump()
            wire.settle()

    pass_time(0)
    idle = world.uns.settings.idle_timeout
    for _ in range(10):
        pass_time(watcher.KEEP_ALIVE_SECONDS)
        conversation.keep_alive()
    assert conversation.is_open and idle < 10 * watcher.KEEP_ALIVE_SECONDS
    pass_time(idle - watcher.KEEP_ALIVE_SECONDS)
    assert conversation.is_open
    pass_time(idle)
    assert not conversation.is_open
    world.disk.close_all()


@in_site
async def test_files_of_which_nothing_is_told_do_not_make_it_silent(site: Site) -> None:
    site.write("a.html")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watcher, "KEEP_ALIVE_SECONDS", 1e9)  # it never hears nothing for so long
        await site.start()
        conversation = site.watcher._conversation
        assert conversation is not None
        said: list[bool] = []
        conversation.keep_alive = lambda: said.append(True)  # type: ignore[method-assign]
        for number in range(2):
            site.write("notes.unknown", str(number))
            await until(lambda: len(said) > number)  # noqa: B023  # it is awaited
        assert site.known == {"a.html"}


@in_site
async def test_a_burst_is_one_set(site: Site) -> None:
    await site.start()
    sets = len(site.script.sets)
    for number in range(50):
        site.write(f"p{number}.html")
    await until(lambda: len(site.known) == 50)
    assert len(site.script.sets) <= sets + 2


@in_site
async def test_editors_that_rename_over_files(site: Site) -> None:
    page = site.write("a.html")
    await site.start()
    sets = len(site.script.sets)
    backup = site.root / "a.html~"
    page.rename(backup)
    site.write("a.html", "edited")
    backup.unlink()
    site.write(".a.html.swp", "hidden")
    (site.root / ".a.html.swp").unlink()
    site.write("new.tmp", "again").replace(page)
    await until(lambda: len(site.script.sets) > sets)
    told = [element for _, elements in site.script.sets[sets:] for element in elements]
    assert {element["c"] for element in told} == {"a.html"} and all("op" not in element for element in told)


@in_site
async def test_folders_that_come_and_go(site: Site) -> None:
    site.write("old/deep/a.html")
    site.write("old/b.html")
    site.write("index.html")
    await site.start()
    # Files that were made before the folder could be watched, too.
    site.write("new/deep/c.html")
    site.write("new/d.html")
    await until(lambda: {"new/deep/c.html", "new/d.html"} <= site.known)
    site.write("new/deep/e.html")
    await until(lambda: "new/deep/e.html" in site.known)
    (site.root / "old").rename(site.root / "moved")
    moved = {"moved/deep/a.html", "moved/b.html"}
    await until(lambda: moved <= site.known and not {"old/b.html", "old/deep/a.html"} & site.known)
    site.write("moved/deep/f.html")
    await until(lambda: "moved/deep/f.html" in site.known)
    shutil.rmtree(site.root / "new" / "deep")
    await until(lambda: "new/deep/c.html" not in site.known and "new/deep/e.html" not in site.known)
    outside = site.root.parent / "away"
    (site.root / "moved").rename(outside)
    await until(lambda: site.known == {"index.html", "new/d.html"})


@in_site
async def test_what_happened_meanwhile_is_told_at_the_next_start(site: Site) -> None:
    site.write("a.html")
    site.write("b.html")
    await site.start()
    site.write("c.html")
    await until(lambda: "c.html" in site.known)
    await site.stop()
    # c.html is known from the journal only.
    (site.root / "c.html").unlink()
    site.write("d.html")
    await site.start()
    assert site.known == {"a.html", "b.html", "d.html"}
    assert not site.state.journal.exists()
    assert {entry.curl for entry in site.state.entries()} == {"a.html", "b.html", "d.html"}


@in_site
async def test_events_that_were_lost(site: Site) -> None:
    await site.start()
    watches = site.watcher._watched
    assert watches._notify is not None
    inits = len(site.script.inits)
    watches._notify.stopReading()
    site.write("lost.html")
    # As the kernel says it.
    watches._notify._doRead(b"\xff\xff\xff\xff" + IN_Q_OVERFLOW.to_bytes(4, "little") + bytes(8))
    await until(lambda: "lost.html" in site.known)
    await until(lambda: len(site.script.inits) == inits + 1)
    site.write("next.html")
    await until(lambda: "next.html" in site.known)


@in_site
async def test_a_site_that_is_deployed_by_a_symbolic_link(site: Site) -> None:
    for release in ("1", "2"):
        (site.root.parent / release).mkdir()
        (site.root.parent / release / f"r{release}.html").write_text("page")
    site.root.rmdir()
    site.root.symlink_to("1")
    await site.start()
    assert site.known == {"r1.html"}
    new = site.root.parent / "next"
    new.symlink_to("2")
    os.replace(new, site.root)  # noqa: PTH105
    await until(lambda: "r2.html" in site.known)


@in_site
async def test_an_answer_that_was_lost(site: Site) -> None:
    await site.start()
    site.script.stop, site.script.lost = "lost-answer", 0
    site.write("a.html")
    await until(lambda: site.last == ["a.html"])
    sets = len(site.script.sets)
    site.script.stop = ""
    await until(lambda: len(site.script.sets) > sets)  # nobody knows whether it was taken: told again
    assert site.known == {"a.html"}
    await until(lambda: {entry.curl for entry in site.state.entries()} == {"a.html"})


@in_site
async def test_it_can_be_ended_while_it_compares(site: Site) -> None:
    site.script.stop = "silent"
    site.write("a.html")
    site.watch()
    await until(lambda: site.script.inits)
    await site.stop()


@in_site
async def test_it_can_be_ended_while_it_connects(site: Site) -> None:
    await site.start()
    endpoint = TCP4ClientEndpoint(MemoryReactorClock(), "127.0.0.1", 1)
    connecting = Deferred.fromCoroutine(site.watcher._connect(endpoint))
    connecting.cancel()
    with pytest.raises(CancelledError):
        await connecting


@in_site
async def test_errors_of_earlier_fetches_are_left_to_a_comparison(site: Site) -> None:
    """What a greeting shows is forgotten by the LCC with the next set: what stays open must not be the first to hear
    of it."""
    site.write("lost.html")
    await site.start()
    await site.stop()
    site.script.errors = 1
    inits, sets = len(site.script.inits), len(site.script.sets)
    await site.start()
    # The comparison has acknowledged them; the connection that would stay open tells nothing now, and waits.
    site.write("a.html")
    await until(lambda: site.watcher._watched.pending)
    assert (len(site.script.inits), len(site.script.sets)) == (inits + 2, sets + 1)


@in_site
async def test_a_refused_file_is_not_known(site: Site) -> None:
    await site.start()
    site.write("bad.html")
    await until(lambda: site.last == ["bad.html"])
    site.write("good.html")

    def noted() -> list[tuple[str, bool]]:
        entries = [StateEntry(*json.loads(line)) for line in site.state.journal.read_text().splitlines()[1:]]
        return [(entry.curl, entry.digest == UNSURE) for entry in entries]

    await until(lambda: len(noted()) >= 3)  # the last once the answer has come
    await site.stop()
    assert noted() == [("bad.html", True), ("good.html", True), ("good.html", False)]


@in_site
async def test_a_site_that_vanishes_is_not_deleted(site: Site) -> None:
    for number in range(12):
        site.write(f"p{number}.html")
    await site.start()
    sets = len(site.script.sets)
    for path in site.root.iterdir():
        path.unlink()
    site.write("q.html")
    await until(lambda: not list(site.root.glob("p*")))
    await site.stop()
    assert len(site.script.sets) == sets
    # The comparison does not, either.
    site.script.sets.clear()
    running = Deferred.fromCoroutine(site.watcher.run())
    running.addErrback(lambda failure: failure.trap(CancelledError) and None)
    await until(lambda: bool(site.watcher._failures))
    running.cancel()
    assert site.script.sets == []


def test_a_journal_that_was_cut_off(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state.txt")
    journal = Journal(state.journal, "http://site/")
    journal.note([StateEntry("?", "a.html", "text/html"), StateEntry("?", "b.html", "text/html")], durably=True)
    journal.note([StateEntry("0123", "a.html", "text/html")], durably=False)
    journal.close()
    with state.journal.open("a") as file:
        file.write('["0123", "b.ht')
    assert state.adopt_pending("token") and not state.journal.exists()
    assert sorted(state.entries()) == [
        StateEntry("0123", "a.html", "text/html"),
        StateEntry(UNSURE, "b.html", "text/html"),
    ]
    assert state.urlprefix() == "http://site/"
    journal = Journal(state.journal, "http://site/")
    journal.note([StateEntry("", "a.html", "text/html")], durably=True)
    journal.close()
    assert not state.adopt_pending("token")
    assert [entry.curl for entry in state.entries()] == ["b.html"]


@pytest.mark.parametrize(
    "text", ['lcc-journal 1 "\\x"\n', 'lcc-journal 1 "http://site/"\n[\n', 'lcc-journal 1 ""\n[1]\n']
)
def test_a_damaged_journal(tmp_path: Path, text: str) -> None:
    state = StateFile(tmp_path / "state.txt")
    state.journal.write_text(text)
    with pytest.raises(StateDamaged, match="journal"):
        state.adopt_pending("token")
    # A full set is the way out.
    StateWriter(state.pending, "full", "http://site/").close()
    assert state.commit("full", True) and not state.adopt_pending("token")


@pytest.mark.parametrize("text", ["", "lcc-jour"])
def test_a_journal_without_a_first_line(tmp_path: Path, text: str) -> None:
    state = StateFile(tmp_path / "state.txt")
    state.journal.write_text(text)
    assert not state.adopt_pending("token") and not state.journal.exists()


def test_folders_that_have_gone_among_names_of_which_nothing_was_told(tmp_path: Path) -> None:
    describer = Describer(MimeTable((), ""), "", b"", True)
    root = os.fsencode(tmp_path)
    files = watcher.Site([Folder(root)], describer, lambda folder: iter(()), lambda text: None)
    for name in (b"a/x.html", b"a/b/y.html", b"ab/z.html", b"a.html"):
        files.told[root + b"/" + name] = {"c": name.decode(), "m": "text/html"}
    paths = [root + b"/a", *(root + b"/t%d.tmp" % number for number in range(50))]
    found = files.changes(paths)
    assert [change.path.removeprefix(root) for change in found] == [b"/a/x.html", b"/a/b/y.html"]
    assert all(change.now is None for change in found)
