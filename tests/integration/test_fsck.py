"""``lcc-admin fsck`` beside real processes: under load, while they are killed, and after a crash of the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lcc.config import load_config
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.database.transactions import Txn
from tests.support.processes.system import BIN, ROLES, OriginServer, Site, System
from tests.support.switches import LONG
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS

LayOut = Callable[[str, int], Path]
SITES = 4
PAGES = 30
ANSWER_MS = 60
"""The origin takes its time, so that there is always something to be cut off."""
CHECKS_MIN = 3
KILLS_MIN = 5 if LONG else 3
SEED = time.time_ns() % 100_000

ROW_FAULTS = frozenset(["missing", "length", "hash", "unreadable", "beyond"])


@pytest.fixture
def answer_ms() -> float:
    return ANSWER_MS


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[System]:
    """An LCC that removes deleted content at once."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    settings = "[qm]\ndelete_grace = 0\nlease = 20.0\n[botm]\nnames_block = 50\nsync_interval = 2.0\n"
    system = System(folder, origin, database_url, settings)
    yield system
    system.stop_all()


def fsck(system: System, *options: str) -> list[dict[str, Any]]:
    """What it finds, the summary last."""
    command = [BIN / "lcc-admin", "--config", str(system.config), "fsck", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=system.folder, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def content(system: System) -> Path:
    return system.folder / "home" / "content"


class Changing:
    """Changes the pages of some sites, and tells of it, until it is stopped."""

    def __init__(self, system: System, sites: list[Site], random: Random) -> None:
        self.system = system
        self.sites = sites
        self.random = random
        self.rounds = 0
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._change(self.sites[self.rounds % len(self.sites)])
                self.rounds += 1
        except BaseException as error:
            self.error = error

    def _change(self, site: Site) -> None:
        files = sorted(path for path in site.folder.rglob("*") if path.is_file())
        for path in self.random.sample(files, 12):
            path.write_text(f"<html>{path.name} {self.rounds} {self.random.random()}</html>" * 50)
        for path in self.random.sample(files, 3):
            path.unlink()
        for number in range(3):
            (site.folder / f"new{self.rounds}-{number}.html").write_text(f"<html>{self.random.random()}</html>")
        self.system.publish(site, expect=(0, 1, 3, 4))


def kill_one(system: System, random: Random) -> list[str]:
    victim = random.choice(["botm", "bot", "bot2", "qm"])
    system.kill(victim)
    system.start(victim)
    return [victim]


def kill_both(system: System, random: Random) -> list[str]:
    """Results that nobody records any longer: real orphans."""
    system.kill("qm")
    time.sleep(0.5)
    system.kill("botm")
    system.start("botm", "qm")
    return ["qm", "botm"]


@pytest.mark.long
def test_it_is_exact_under_load_and_kills(system: System, lay_out: LayOut) -> None:
    """What it calls a fault is one, and what it removes nobody misses."""
    random = Random(SEED)
    print(f"seed {SEED}")
    for number in range(SITES):
        lay_out(f"site{number}", PAGES)
    system.start(*ROLES, "bot2")
    sites = [system.add_site(f"site{number}") for number in range(SITES)]
    for site in sites:
        system.publish_when_up(site)
    changing = Changing(system, sites, random)
    checks, kills = 0, Counter[str]()
    orphans: set[int] = set()
    found: Counter[str] = Counter()
    try:
        while checks < CHECKS_MIN or kills.total() < KILLS_MIN:
            kills.update(random.choice([kill_one, kill_both])(system, random))
            # Sometimes at once, sometimes when all have found each other again.
            time.sleep(random.choice([0.0, 0.3, 3.0]))
            *findings, summary = fsck(system, *random.choice([(), ("--repair",), ("--repair", "--quick")]))
            checks += 1
            found.update(finding["kind"] for finding in findings)
            assert not [finding for finding in findings if finding["kind"] in ROW_FAULTS], findings
            orphans |= {finding["file"] for finding in findings if finding["kind"] == "orphan"}
            assert summary["summary"]["found"]["stray"] == 0
    finally:
        changing.stop()
    print(f"{checks} checks, {dict(kills)} killed, {changing.rounds} sets, found {dict(found)}")
    for site in sites:
        system.publish_when_up(site)
        rows = system.wait_cached(site)
        # No orphan ever became the content of anything.
        assert not orphans & {row["fetched_fileid"] for row in rows.values()}
    wait_for("the queue is empty", lambda: system.rows("queue") == [])

    def repaired() -> bool:
        return {finding["kind"] for finding in fsck(system, "--repair")[:-1]} <= {"orphan", "leftover"}

    wait_for("every orphan can be told", repaired)
    wait_for("all that is to be removed is removed", lambda: fsck(system)[-1]["summary"]["files"] == cached(system))
    (summary,) = fsck(system)
    assert summary["summary"]["rows"] == cached(system) and not any(summary["summary"]["found"].values())
    assert not list((content(system) / "attempts").glob("*/*"))
    system.assert_serial()


def cached(system: System) -> int:
    return sum(row["state"] == "cached" for row in system.rows("urls"))


class Stalled:
    """A database in which nobody else can write, until :meth:`release`."""

    def __init__(self, system: System) -> None:
        config = load_config(system.config)
        self._database = BlockingDatabase(config.database.url, config.home, config.database, random=Random(1))
        self._held, self._release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        assert self._held.wait(60)

    def _work(self) -> None:
        self._database.write(self._hold)
        self._database.close()

    def _hold(self, txn: Txn) -> None:
        txn.query(f"SELECT value FROM counters{txn.for_update}")
        self._held.set()
        self._release.wait(60)

    def release(self) -> None:
        self._release.set()
        self._thread.join()


@pytest.mark.long
def test_results_that_wait_for_the_database_are_no_orphans(system: System, lay_out: LayOut) -> None:
    """Their BOT-M has forgotten them, because it was started anew, and no row names them yet."""
    lay_out("site", 120)
    system.start(*ROLES)
    site = system.add_site("site")
    system.publish_when_up(site)
    wait_for("some pages are fetched", lambda: len(system.origin.requests()) > 10)
    stalled = Stalled(system)
    try:
        seen = len(system.origin.requests())
        wait_for("more are fetched, and not recorded", lambda: len(system.origin.requests()) > seen + 10)
        assert len(system.origin.requests()) < 120, "too quick to prove anything"
        system.kill("botm")
        system.start("botm")
        wait_for("the BOT-M is back", lambda: system.log("botm").count("Connected to qm") == 2)
        found = Counter(finding["kind"] for finding in fsck(system, "--repair")[:-1])
        assert found["undecided"] > 5 and found.keys() <= {"undecided", "leftover"}
    finally:
        stalled.release()
    wait_for("they can be told", lambda: {finding["kind"] for finding in fsck(system)[:-1]} <= {"orphan", "leftover"})
    system.wait_cached(site)
    assert sum(count - 1 for count in Counter(r["path"] for r in system.origin.requests()).values()) <= 3
    fsck(system, "--repair")
    assert not any(fsck(system)[-1]["summary"]["found"].values())
    system.assert_serial()


@MARIADB_ALWAYS
def test_what_was_lost_is_fetched_again(system: System, lay_out: LayOut) -> None:
    lay_out("site", 40)
    system.start(*ROLES)
    site = system.add_site("site")
    system.publish_when_up(site)
    rows = list(system.wait_cached(site).values())
    asked = len(system.origin.requests())
    Path(rows[0]["path"]).unlink()
    Path(rows[1]["path"]).write_bytes(b"")
    whole = Path(rows[2]["path"]).read_bytes()
    Path(rows[2]["path"]).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (content(system) / "0000000" / "000" / "000000000fff").write_bytes(b"beyond")
    kinds = Counter(finding["kind"] for finding in fsck(system)[:-1])
    assert kinds == {"missing": 1, "length": 1, "hash": 1, "stray": 1}
    assert Counter(finding["done"] for finding in fsck(system, "--repair")[:-1]) == {"ordered": 3, "": 1}
    wait_for("they are fetched again", lambda: len(system.origin.requests()) == asked + 3)
    system.wait_cached(site)
    wait_for("they are in order", lambda: len(fsck(system)) == 2)
    # Not conditional: the origin has sent all of it.
    assert sorted(request["path"] for request in system.origin.requests()[asked:]) == sorted(
        "/site/" + row["curl"].removeprefix(site.url) for row in rows[:3]
    )
    for role in ROLES:
        system.stop(role)


@pytest.mark.long
def test_a_crash_of_the_machine(system: System, lay_out: LayOut) -> None:
    """The machine is switched off: what was not synced is empty or gone, as after a real crash."""
    lay_out("site", 60)
    system.start(*ROLES)
    site = system.add_site("site")
    system.publish_when_up(site)
    system.wait_cached(site)
    synced = content(system) / "synced"
    wait_for("it is synced", lambda: int(synced.read_text().split()[0]) > 60)
    old = {row["fetched_fileid"] for row in system.cached(site).values()}
    for path in sorted(site.folder.rglob("*.html"))[:20]:
        path.write_text(f"<html>young {path.name}</html>")
    # The mark is put back to where it was: nothing of this was synced.
    mark = synced.read_text().split()
    system.publish(site)
    young = [row for row in system.wait_cached(site).values() if row["fetched_fileid"] not in old]
    assert len(young) == 20 or len(list(site.folder.rglob("*.html"))) < 20
    system.kill("botm")
    synced.write_text(f"{mark[0]} running another-boot 0\n")
    for number, row in enumerate(young):
        if number % 3 == 0:
            Path(row["path"]).unlink()
        elif number % 3 == 1:
            Path(row["path"]).write_bytes(bytes(row["len"]))
    asked = len(system.origin.requests())
    system.start("botm")
    lost = sum(number % 3 < 2 for number in range(len(young)))
    wait_for("what was lost is fetched again", lambda: len(system.origin.requests()) == asked + lost)
    system.wait_cached(site)
    wait_for("nothing is suspect", lambda: synced.read_text().split()[1] == "running")
    assert "Verified all content" in system.log("botm")
    summary = fsck(system, "--repair")[-1]["summary"]
    assert not any(summary["found"][kind] for kind in ROW_FAULTS)
    # A process that is killed loses nothing: nothing is verified, nothing is fetched.
    asked = len(system.origin.requests())
    system.kill("botm")
    system.start("botm")
    (site.folder / "last.html").write_text("<html>last</html>")
    system.publish(site)
    system.wait_cached(site)
    assert len(system.origin.requests()) == asked + 1
    assert synced.read_text().split()[1] == "running"
    for role in ROLES:
        system.stop(role)
    assert synced.read_text().split()[1] == "clean"


@pytest.mark.long
def test_a_disk_that_was_replaced(system: System, lay_out: LayOut) -> None:
    lay_out("site", 30)
    system.start(*ROLES)
    site = system.add_site("site")
    system.publish_when_up(site)
    old = {row["fetched_fileid"] for row in system.wait_cached(site).values()}
    system.stop("botm")
    shutil.rmtree(content(system))
    system.start("botm")
    wait_for("it is noticed", lambda: "content folder" in system.log("qm"))
    # What is new gets no name of what is lost.
    (site.folder / "new.html").write_text("<html>new</html>")
    system.publish(site)
    new = wait_for("it is cached", lambda: system.cached(site).get("new.html"))
    assert new["fetched_fileid"] > max(old)
    assert fsck(system, "--repair")[-1]["summary"]["found"]["missing"] == 30
    wait_for("it is in order", lambda: not any(fsck(system)[-1]["summary"]["found"].values()))
    assert not old & {row["fetched_fileid"] for row in system.wait_cached(site).values()}
