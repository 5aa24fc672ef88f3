"""Overload, with real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.system import Site, System
from tests.support.waiting import wait_for

from .databases import MARIADB_ALWAYS

REJECTED = 3


def configure(system: System, qm: str, uns: str = "") -> None:
    """Settings that make it small."""
    text = system.config.read_text().replace("[uns]\n", f"[uns]\n{uns}")
    system.config.write_text(f"{text}[qm]\n{qm}")


def change(site: Site, text: str) -> None:
    """Each page of the site has new content."""
    for path in sorted(site.folder.rglob("*")):
        if path.is_file():
            path.write_bytes(text.encode() + path.read_bytes())


@pytest.mark.long
def test_the_queue_is_full_then_the_spool_and_all_reverses_by_itself(
    system: System, lay_out: Callable[[str, int], Path]
) -> None:
    configure(system, "queue_rows_max = 20\noverload_low = 0.5\n", "spool_max_bytes = 65536\n")
    lay_out("a", 40)
    lay_out("b", 30)
    sites = [system.add_site(name) for name in "ab"]
    first, second = sites
    system.start("uns", "qm")
    system.publish_when_up(first)
    socket = system.folder / "home" / "qm.sock"
    wait_for("the port is closed", lambda: "Overloaded" in system.log("qm") and not socket.exists())
    wait_for("the UNS has noticed", lambda: "Lost the queue manager" in system.log("uns"))
    spool = system.folder / "home" / "spool"
    accepted = rejected = 0
    for number in range(40):
        change(second, f"version {number} ")
        result = system.publish(second, expect=(0, REJECTED))
        accepted += result.returncode == 0
        rejected += result.returncode == REJECTED
        if rejected >= 2:
            break
    assert accepted >= 2 and rejected >= 1
    assert sum(path.stat().st_size for path in spool.glob("*.set")) <= 65536
    assert len(list(spool.glob("*.set"))) == accepted
    assert len(system.cached(first)) == 0
    # Robots come: the queue drains, the port opens, the spool drains, providers are welcome again.
    system.start("botm", "bot")
    wait_for("UNSes are let in again", lambda: "No longer overloaded" in system.log("qm"))
    wait_for("the spool is empty", lambda: not list(spool.glob("*.set")))
    wait_for("providers are welcome", lambda: system.publish(second, expect=(0, REJECTED)).returncode == 0)
    for site in sites:
        system.wait_cached(site)
    system.assert_serial()
    for role in ("bot", "botm", "uns", "qm"):
        system.stop(role)


@MARIADB_ALWAYS
def test_a_restart_over_the_limit_still_drains(system: System, lay_out: Callable[[str, int], Path]) -> None:
    configure(system, "queue_rows_max = 10\n")
    lay_out("a", 60)
    site = system.add_site("a")
    system.start("uns", "qm", "botm")
    system.publish_when_up(site)
    wait_for("it is overloaded", lambda: "Overloaded" in system.log("qm"))
    system.kill("qm")
    system.start("qm", "bot")
    system.wait_cached(site)
    wait_for("UNSes are let in again", lambda: "No longer overloaded" in system.log("qm"))
    wait_for("it takes sets", lambda: system.publish(site, expect=(0, 4)).returncode == 0)
    system.assert_serial()
