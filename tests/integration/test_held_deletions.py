"""Deletions that are held, and roots that are taken away, with the provider's tools and a real LCC."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.system import BIN, OriginServer, Site, System
from tests.support.waiting import PATIENCE_SECONDS, wait_for

from .databases import SQLITE_ALWAYS

PAGES = tuple(f"{folder}/{number}.html" for folder in ("in", "out") for number in range(5))


@pytest.fixture
def system(tmp_path: Path, origin: OriginServer, database_url: str | None) -> Iterator[System]:
    """An LCC that holds more than two deletions if they are more than half; nothing of it runs yet."""
    for name in PAGES:
        page = origin.root / "site" / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<html>{name}</html>")
    folder = tmp_path / "lcc"
    folder.mkdir()
    system = System(folder, origin, database_url, "[qm]\nmass_deletion_floor = 2\n")
    yield system
    system.stop_all()


def tell(system: System, site: Site, *pages: str, options: str = "", code: int = 0) -> str:
    """Run lcccp; gives all that it said."""
    done = subprocess.run(
        [BIN / "lcccp", f"--uns=127.0.0.1:{system.port}", f"--pid={site.pid}", "--no-end-mark", *options.split()],
        input="".join(f'<url c="{site.url}{page}" m="text/html"/>\n' for page in pages),
        capture_output=True,
        text=True,
        env=dict(system.environment, LCC_PASSWORD=site.password),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def wait_cached(system: System, site: Site, *pages: str) -> None:
    wait_for(f"{len(pages)} pages are cached", lambda: sorted(system.cached(site)) == sorted(pages))


@SQLITE_ALWAYS
def test_a_wrong_full_set_deletes_nothing_before_somebody_says_so(system: System) -> None:
    system.start("all")
    site = system.add_site("site")
    pid = str(site.pid)
    tell(system, site, *PAGES, options="--full --retries 20")
    wait_cached(system, site, *PAGES)

    def send_wrong() -> None:
        tell(system, site, PAGES[0], options="--full")
        held = "9 URLs of 10 in the cache are not in the last full set: deletion held"
        wait_for("it is held", lambda: held in tell(system, site, options="--check"))
        assert "deletions of 9 pages HELD, of 1 provider" in system.admin("status")
        assert len(system.cached(site)) == len(PAGES)

    send_wrong()
    assert "(9 pages)" in system.admin("provider", "allow-deletions", pid)
    wait_cached(system, site, PAGES[0])
    tell(system, site, *PAGES, options="--full")
    wait_cached(system, site, *PAGES)
    send_wrong()
    assert "(9 pages)" in system.admin("provider", "drop-deletions", pid)
    wait_for("nothing is held", lambda: "deletion held" not in tell(system, site, options="--check"))
    send_wrong()
    assert "deletion held" in tell(system, site, PAGES[1]), "what it tells of now is newer"
    assert "the deletions that the LCC held" in tell(system, site, options="--allow-deletions")
    wait_cached(system, site, *PAGES[:2])
    assert "deletion held" not in tell(system, site, options="--check")
    tell(system, site, PAGES[0], options="--full --allow-deletions")
    wait_cached(system, site, PAGES[0])


@pytest.mark.long
def test_narrowed_roots_drop_what_is_queued_and_the_provider_sees_it(system: System) -> None:
    system.start("uns", "qm")  # nobody fetches yet
    site = system.add_site("site")
    tell(system, site, *PAGES, options="--retries 20")
    wait_for("all are queued", lambda: len(system.rows("queue", "--provider", str(site.pid), "--urls")) == len(PAGES))
    said = system.admin("provider", "set", str(site.pid), "--root", f"{site.url}in/", "--yes")
    assert "outside its roots are dropped" in said
    wait_for("errors", lambda: "5 of earlier fetches" in tell(system, site, options="--check"))
    said = tell(system, site)
    assert "5 errors of earlier fetches" in said
    assert all(f"{site.url}{name}" in said for name in PAGES if name.startswith("out/"))
    assert "1106" in tell(system, site, PAGES[-1], options="--full", code=3)
    system.start("botm", "bot")
    wait_cached(system, site, *[name for name in PAGES if name.startswith("in/")])
    assert {request["path"].split("/")[-2] for request in system.origin.requests()} == {"in"}
