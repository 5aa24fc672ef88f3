"""``lcc-admin status``, ``errors``, ``retry``, ``rebuild``, ``provider want-full-set``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lcc.admin.queue import errors as errors_module
from lcc.model import Delay
from lcc.storage.providers.providers import order_removal
from tests.support.admin import Lcc
from tests.support.databases import result_of
from tests.support.logs import LoggedErrors
from tests.support.processes.terminal import NarrowTerminal
from tests.support.queue import notice

from .site import IDLE, NOW, Site

BIN = Path(sys.executable).parent

STATE: dict[str, Any] = IDLE | {
    "overload": "",
    "ports": {"UNSes": True},
    "unses": ["uns"],
    "absorb_waiting": 1200,
    "centrals": [{"name": "central", "machines": 1}],
    "machines": [
        {
            "machine": 1,
            "name": "rack1",
            "via": "central row2",
            "content": "",
            "connected": True,
            "ready": True,
            "capacity": 8,
            "orders": 3,
            "robots_count": 20,
            "robots": [
                {"name": f"bot{number}", "capacity": 2, "busy": number % 2, "paused": number == 2}
                for number in range(10)
            ],
        }
    ],
    "orders_out": 3,
    "rates": {"results_recorded": 12.5, "sets_answered": 0.4},
}


def orders(site: Site) -> list[tuple[Any, ...]]:
    return site.queue.database.query("SELECT kind, pid, code, text FROM orders ORDER BY id")


def fail_with(site: Site, *codes: int) -> None:
    site.queue.send(len(codes), *[notice(f"{site.queue.pid}/{number}") for number in range(len(codes))])
    results = zip(site.queue.rows(), codes, strict=True)
    site.queue.record(*[site.queue.failed(row, code) for row, code in results], now=NOW)


# Status.


def test_status_of_an_empty_lcc(lcc: Lcc) -> None:
    (answer,) = lcc.rows("status")
    assert (answer["alive"], answer["queue"], answer["oldest"], answer["qm"]) == (False, [], None, None)
    screen = lcc.admin("status").stdout
    assert "queue manager none has run yet" in screen
    assert "queue         empty" in screen


def test_machines_and_robots_that_get_no_orders(site: Site) -> None:
    (machine,) = STATE["machines"]
    old = machine | {"machine": 2, "capacity": 0, "refused": "a central BOT-M is old"}
    away = old | {"machine": 3, "connected": False, "ready": False}
    site.say(**STATE | {"machines": [machine | {"robots_refused": "robot bot7: another folder"}, old, away]})
    screen = site.lcc.admin("status").stdout
    assert "machine 2 (rack1 via central, row2): connected, gets no orders, 3 outstanding orders" in screen
    assert "robot bot7: another folder" in screen and screen.count("a central BOT-M is old") == 1
    said = site.lcc.admin("check", code=1).output
    assert "machine 1 (rack1): robot bot7: another folder" in said
    assert "machine 2 (rack1): a central BOT-M is old" in said and "machine 3" not in said
    site.say(**STATE)
    assert "no errors found" in site.lcc.admin("check").output


def test_status_of_a_busy_one(site: Site) -> None:
    first = site.queue.pid
    site.queue.send(1, *[notice(f"{number}") for number in range(5)], now=NOW - 600)
    site.queue.pid = second = site.queue.add_provider()
    site.queue.send(1, notice("x"), notice("late"), now=NOW - 300)
    late = site.queue.rows()[1]
    result_of(site.queue.store.record([], [], NOW, [(late.key, late.generation, 1)]))
    site.queue.record(site.queue.failed(site.queue.rows()[0], 503), now=NOW)
    site.queue.pid = third = site.queue.add_provider()
    fail_with(site, 404, 404, 403)
    site.queue.send(9, notice("c"))
    site.queue.fetch_all()
    site.queue.send(10, notice("c", delete=True))
    result_of(site.queue.store.want_full_set(third, "old-files"))
    site.queue.database.now(order_removal, third)
    result_of(
        site.queue.store.save_delays(
            [Delay(first, NOW + 600, "site-error", 1303, 2), Delay(second, NOW + 20, "bandwidth"), Delay(0, 0, "")]
        )
    )
    site.say(**STATE)
    (answer,) = site.lcc.rows("status")
    assert answer["alive"] and answer["age"] == 2 and answer["trouble"] == ""
    assert answer["providers"] == {"registered": 3, "removing": 1}
    assert answer["queue"] == [{"priority": 1, "providers": 2, "sets": 2, "urls": 7, "later": 1, "retrying": 1}]
    assert NOW + 40 < answer["next_retry"] <= NOW + 64
    assert answer["oldest"] == {"psetid": 1, "pid": first, "urls": 5, "time": NOW - 600}
    assert answer["busiest"] == [{"pid": first, "queued": 5}, {"pid": second, "queued": 2}]
    assert answer["delayed"] == {"bandwidth": 1, "site-error": 1}
    assert [delay["pid"] for delay in answer["delays"]] == [first, second]
    assert answer["errors"] == 3
    assert answer["errors_kept"] == [{"code": 404, "kept": 2}, {"code": 403, "kept": 1}]
    assert answer["full_sets_wanted"] == {"old-files": 1}
    assert answer["orders"] == {"provider-removed": 1}
    assert answer["deletes"] == [{"machine": 1, "number": 1, "more": False}]
    screen = site.lcc.admin("status").stdout
    for said in (
        "1 URL waiting for a retry, the first in ",
        "run 1 is running; last seen 2 seconds ago",
        "port for UNSes: open",
        "uns; 1,200 elements waiting to be absorbed",
        "central: connected, machines: 1",
        "machine 1 (rack1 via central, row2): connected, robots for 8 concurrent fetches, 3 outstanding orders",
        "12.5 fetches/s, 0.4 sets/s",
        "priority 1: 7 URLs (1 of them outside hours) in 2 sets of 2 providers",
        "1 of provider 1, received 2023-11-14 22:03:20 UTC (10 minutes ago), 5 URLs left",
        "provider 1: 5, provider 2: 2",
        "provider 1: down (1303 connection timed out, 2 in a row), next try in 10 minutes",
        "1 asked for a full set: old-files",
        "404 Not Found: 2",
        "1 of provider-removed wait for the queue manager",
        "1 files to be removed on machine 1",
    ):
        assert said in screen, said
    assert len(screen.splitlines()) <= 40


def test_status_while_a_machine_is_waited_for(site: Site) -> None:
    withheld = {"providers": 1200, "pids": [1], "sets_upto": 9}
    site.say(**STATE | {"awaited": [{"machine": 3, "until": NOW + 90}], "withheld": withheld})
    screen = site.lcc.admin("status").stdout
    assert "machine 3 may hold orders of an earlier queue manager for 90 seconds" in screen
    assert "1,200 providers waiting for these machines" in screen


def test_status_of_an_overloaded_one(site: Site) -> None:
    site.say(**STATE | {"overload": "10,000,001 URLs are queued", "ports": {"UNSes": False}, "machines": []})
    screen = site.lcc.admin("status").stdout
    assert "overloaded, accepts no sets: 10,000,001 URLs are queued" in screen
    assert "port for UNSes: closed" in screen
    assert "none connected yet" in screen


def test_status_when_the_queue_manager_is_dead(site: Site) -> None:
    site.say(**STATE | {"time": NOW - 7200})
    shown = site.lcc.admin("status").stdout
    assert "not running or cannot write to the database (last seen 2 hours ago)" in shown
    assert site.lcc.rows("status")[0]["alive"] is False


def test_status_when_the_queue_manager_was_stopped(site: Site) -> None:
    site.say(**STATE | {"time": NOW, "stopped": True})
    shown = " ".join(site.lcc.admin("status").stdout.split())
    assert "queue manager was stopped" in shown and "the queue manager was stopped" not in shown
    assert site.lcc.rows("status")[0]["alive"] is False


def test_the_spool_of_this_machine(lcc: Lcc) -> None:
    assert lcc.rows("status")[0]["spool"] is None
    spool = lcc.folder / "home" / "spool"
    (spool / "damaged").mkdir(parents=True)
    (spool / "000000000001.set").write_bytes(b"x" * 1000)
    (spool / "epoch").write_text("e")
    (spool / "damaged" / "000000000002.set").write_bytes(b"x")
    assert lcc.rows("status")[0]["spool"] == {"sets": 1, "bytes": 1000, "damaged": 1, "no_room": ""}
    assert "1 set, 1,000 bytes (of the UNS on this machine); 1 damaged" in lcc.admin("status").stdout


# Errors.


@pytest.mark.parametrize("page_rows", [1000, 1, 2])
def test_errors(site: Site, page_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "PAGE_ROWS", page_rows)
    fail_with(site, 404, 403, 404)
    site.queue.pid = site.queue.add_provider()
    fail_with(site, 1501, 404)

    def listed(*options: str) -> list[tuple[int, int]]:
        return [(row["pid"], row["code"]) for row in site.lcc.rows("errors", *options)]

    assert listed() == [(1, 404), (1, 403), (1, 404), (2, 1501), (2, 404)]
    assert listed("--provider", "2") == [(2, 1501), (2, 404)]
    assert listed("--code", "404") == [(1, 404), (1, 404), (2, 404)]
    assert listed("--code", "404", "--provider", "1", "--limit", "1") == [(1, 404)]
    row = site.lcc.rows("errors", "--code", "1501")[0]
    assert (row["name"], row["url"], row["time"]) == ("quota-files", "http://site/2/0", NOW)
    assert "quota-files" in site.lcc.admin("errors").stdout
    assert "there is no provider 77" in site.lcc.admin("errors", "--provider", "77", code=1).output
    assert site.lcc.admin("errors", "--code", "500").stdout == "no errors with code 500\n"
    assert site.lcc.admin("errors", "--provider", str(site.queue.add_provider())).stdout == "no errors\n"
    assert site.lcc.admin("errors", "--code", "500", "--json").stdout == ""
    assert "Invalid value" in site.lcc.admin("errors", "--code", "7", code=2).output


# Orders.


def test_retry(site: Site) -> None:
    fail_with(site, 404, 403)
    ordered = site.lcc.admin("retry", "--all").stdout
    assert ordered == "ordered: retry of 2 URLs with a final error and any unreachable sites\n"
    assert (
        "ordered: retry of 1 URL with a final error"
        in site.lcc.admin("retry", "--provider", "1", "--code", "404").stdout
    )
    none = site.lcc.admin("retry", "--code", "500").stdout
    assert "retry of any unreachable sites (no URL has such an error)" in none
    assert orders(site) == [("retry", 0, 0, ""), ("retry", 1, 404, ""), ("retry", 0, 500, "")]
    assert "no provider 9" in site.lcc.admin("retry", "--provider", "9", code=1).output
    site.queue.send(5, notice("later"))
    site.queue.record(site.queue.failed(site.queue.rows()[0], 503))
    for options, waiting in (
        (("--all",), 1),
        (("--code", "503"), 1),
        (("--code", "500"), 0),
        (("--provider", "1"), 1),
    ):
        shown = site.lcc.admin("retry", *options).stdout
        assert ("1 URL waiting after an error" in shown) == bool(waiting)


def test_nothing_is_retried_everywhere_by_mistake(site: Site) -> None:
    fail_with(site, 404, 403)
    asked = site.lcc.admin("retry", code=2).stderr
    assert "would retry 2 URLs with a final error and any unreachable sites, of all providers" in asked
    assert "--all cannot be combined" in site.lcc.admin("retry", "--all", "--code", "404", code=2).stderr
    assert orders(site) == []
    command = [str(BIN / "lcc-admin"), "--config", str(site.lcc.config_path), "retry"]
    for answer, code, ordered in (("n", 1, []), ("y", 0, [("retry", 0, 0, "")])):
        with NarrowTerminal(command, dict(os.environ), columns=200, lines=50) as terminal:
            terminal.wait_for(b"of all providers?")
            terminal.type(answer)
            assert terminal.end() == code
        assert orders(site) == ordered


def carry_out(site: Site) -> None:
    """What a running queue manager does."""
    while result_of(site.queue.store.carry_out_orders(NOW + 1)).more:
        pass
    assert orders(site) == []


def test_what_failed_is_queued_again(site: Site) -> None:
    fail_with(site, 404, 403)
    site.lcc.admin("retry", "--code", "403")
    carry_out(site)
    assert [row.notice.curl for row in site.queue.rows()] == ["http://site/1/1"]
    words = site.words("1/1")
    assert "queued, fetch URL" in words and "failed for good with 403" in words
    site.queue.check_books()


def test_rebuild(site: Site, logged_errors: LoggedErrors) -> None:
    assert site.lcc.admin("rebuild").stdout == "ordered\n"
    assert orders(site) == [("rebuild", 0, 0, "")]
    site.queue.send(1, notice("a"), notice("b"))
    site.queue.database.now(lambda txn: txn.execute("DELETE FROM qpsdb"))
    assert "run lcc-admin rebuild" in site.words("b")
    carry_out(site)
    assert logged_errors.flush("repaired")
    assert "behind 1 row of its set" in site.words("b")
    site.queue.check_books()


def test_an_order_that_nobody_carries_out(site: Site) -> None:
    result_of(site.queue.store.save_state(json.dumps(IDLE | {"time": NOW - 60})))
    assert "done when one starts" in site.lcc.admin("rebuild").stdout


def test_want_full_set(site: Site) -> None:
    site.lcc.admin("provider", "want-full-set", "1")
    site.lcc.admin("provider", "want-full-set", "1", "--reason", " disk  lost ")
    assert orders(site) == [("want-full-set", 1, 0, "operator"), ("want-full-set", 1, 0, "disk lost")]
    carry_out(site)
    assert site.lcc.rows("provider", "show", "1")[0]["full_set_wanted"] == "disk lost"
    assert site.lcc.rows("status")[0]["full_sets_wanted"] == {"disk lost": 1}
    for reason in ("", "x" * 65, "a\x1bb"):
        assert "--reason" in site.lcc.admin("provider", "want-full-set", "1", "--reason", reason, code=2).output
    assert "no provider 9" in site.lcc.admin("provider", "want-full-set", "9", code=1).output
    site.queue.database.now(order_removal, 1)
    assert "being removed" in site.lcc.admin("provider", "want-full-set", "1", code=1).output


def hold_deletions(site: Site) -> None:
    result_of(site.queue.store.save_state(json.dumps(STATE)))
    site.queue.send(1, *[notice(f"1/{number}") for number in range(300)])
    site.queue.fetch_all()
    site.queue.send(2, notice("1/0"), full=True)


def test_deletions_that_are_held(site: Site) -> None:
    assert "no held deletions for provider 1" in site.lcc.admin("provider", "allow-deletions", "1", code=1).output
    hold_deletions(site)
    (row,) = site.lcc.rows("provider", "show", "1")
    assert row["deletions_held"] == 299 and row["deletions_held_since"] == 10
    assert "299 of 300: provider allow-deletions or drop-deletions" in site.lcc.admin("provider", "show", "1").stdout
    assert site.lcc.rows("status")[0]["deletions_held"] == {"providers": 1, "pages": 299}
    assert "deletions of 299 pages HELD, of 1 provider" in site.lcc.admin("status").stdout
    assert "299 pages" in site.lcc.admin("provider", "allow-deletions", "1").stdout
    carry_out(site)
    (row,) = site.lcc.rows("provider", "show", "1")
    assert row["deletions_held"] is None and row["files_used"] == 1
    assert "HELD" not in site.lcc.admin("status").stdout
    assert "no provider 9" in site.lcc.admin("provider", "allow-deletions", "9", code=1).output


def test_deletions_that_are_dropped(site: Site) -> None:
    hold_deletions(site)
    assert "are kept (299 pages)" in site.lcc.admin("provider", "drop-deletions", "1").stdout
    carry_out(site)
    (row,) = site.lcc.rows("provider", "show", "1")
    assert row["deletions_held"] is None and row["files_used"] == 300


def test_provider_show(site: Site) -> None:
    site.change(files_max=10, space_max_bytes=100)
    fail_with(site, 404)
    site.queue.send(5, notice("a"))
    site.queue.fetch_all()
    result_of(site.queue.store.save_delays([Delay(1, NOW + 600, "site-error", 1303, 2)]))
    (row,) = site.lcc.rows("provider", "show", "1")
    assert (row["files_used"], row["files_free"], row["space_used"], row["space_free"]) == (1, 9, 1, 99)
    assert (row["errors"], row["queued"], row["full_sets_left"]) == (1, 0, 10)
    assert [delay["code"] for delay in row["delays"]] == [1303]
    shown = site.lcc.admin("provider", "show", "1").stdout
    assert "down (1303 connection timed out, 2 in a row), next try in 10 minutes" in shown


def test_provider_set_is_heard_of(site: Site) -> None:
    site.lcc.admin("provider", "set", "1", "--bandwidth", "1000")
    assert orders(site) == [("provider-changed", 1, 0, "")]
