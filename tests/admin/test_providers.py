"""``lcc-admin provider``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lcc.config import WatchedConfig, load_config
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.passwords import verify_password
from lcc.storage.providers.providers import get_provider
from lcc.storage.providers.watched import keep_left_roots, watch_site
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase

ROOT = "http://www.example.org/"


def test_add_prints_id_and_password_once(lcc: Lcc) -> None:
    first, second = lcc.rows("provider", "add", "--root", ROOT), lcc.rows("provider", "add", "--root", ROOT)
    assert [set(row) for row in first] == [{"pid", "password"}]
    assert second[0]["pid"] == first[0]["pid"] + 1
    assert second[0]["password"] != first[0]["password"]
    provider = lcc.write(get_provider, first[0]["pid"])
    assert verify_password(first[0]["password"], provider.password_hash)
    for command in (["list"], ["list", "--json"], ["show", "1"], ["show", "1", "--json"]):
        output = lcc.admin("provider", *command).output
        assert first[0]["password"] not in output
        assert provider.password_hash not in output


def test_add_for_people(lcc: Lcc) -> None:
    lines = lcc.admin("provider", "add", "--root", ROOT).stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["pid", "password"]


def test_every_option(lcc: Lcc, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse\nbattery staple\n")
    lcc.admin(
        "provider", "add", "--root", "HTTP://WWW.Example.org:80", "--root", "https://b.example.org/x/",
        "--password-file", str(secret), "--bandwidth", "1000", "--hours", "0-8,22-23", "--timezone", "UTC",
        "--priority", "2", "--files-max", "10", "--space-max", "20", "--full-sets", "none", "--allow-private",
        "--insecure", "--contact", "me@example.org", "--interval", "2.5",
    )  # fmt: skip
    (row,) = lcc.rows("provider", "list")
    assert row == {
        "pid": 1,
        "roots": [ROOT, "https://b.example.org/x/"],
        "bandwidth": 1000,
        "hours": "0-8,22-23",
        "timezone": "UTC",
        "priority": 2,
        "files_max": 10,
        "space_max": 20,
        "full_sets": None,
        "allow_private": True,
        "insecure": True,
        "removed": False,
        "contact": "me@example.org",
        "interval": 2.5,
        "watched": False,
        "interval_by": "operator",
        "hours_by": "operator",
    }
    assert verify_password("correct horse", lcc.write(get_provider, 1).password_hash)


def test_set_changes_what_is_named(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT, "--bandwidth", "1000", "--priority", "1", "--allow-private")
    before = lcc.rows("provider", "show", "1")[0]
    lcc.admin("provider", "set", "1", "--bandwidth", "none", "--no-allow-private")
    after = lcc.rows("provider", "show", "1")[0]
    assert after == {**before, "bandwidth": None, "allow_private": False}
    lcc.admin("provider", "set", "1", "--root", "http://other.example.org/")
    assert lcc.rows("provider", "show", "1")[0]["roots"] == ["http://other.example.org/"]


def orders(lcc: Lcc) -> list[str]:
    return [kind for (kind,) in lcc.write(lambda txn: txn.query("SELECT kind FROM orders ORDER BY id"))]


NARROW = ["provider", "set", "1", "--root", ROOT + "a/"]


def test_a_root_is_taken_away(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT, "--root", ROOT + "a/", "--root", "https://b.example.org/")
    lcc.admin("provider", "set", "1", "--remove-root", ROOT + "b/", code=1)
    lcc.admin("provider", "set", "1", "--remove-root", ROOT + "a/", "--remove-root", ROOT + "a/", code=1)
    lcc.admin("provider", "set", "1", "--remove-root", ROOT, "--root", ROOT, code=2)
    lcc.admin("provider", "set", "1", "--remove-root", "nothing", code=2)
    assert orders(lcc) == []
    # What is left covers it.
    assert lcc.admin("provider", "set", "1", "--remove-root", ROOT + "a/").stdout == ""
    said = lcc.admin("provider", "set", "1", "--remove-root", "HTTPS://B.example.org").stdout
    assert "outside its roots are dropped" in said and "is kept; lcc-admin provider delete-outside 1" in said
    assert orders(lcc) == ["provider-changed", "roots-taken"] * 2
    assert lcc.rows("provider", "show", "1")[0]["roots"] == [ROOT]
    assert lcc.write(get_provider, 1).former_roots == (ROOT + "a/", "https://b.example.org/")
    assert "at least one root" in lcc.admin("provider", "set", "1", "--remove-root", ROOT, code=1).output


def test_a_root_is_added(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT)
    other = "https://b.example.org/"
    lcc.admin("provider", "set", "1", "--add-root", "HTTPS://B.example.org", "--root", ROOT, code=2)
    lcc.admin("provider", "set", "1", "--add-root", "nothing", code=2)
    for _ in range(2):
        assert (
            lcc.admin("provider", "set", "1", "--add-root", "HTTPS://B.example.org", "--add-root", ROOT).stdout == ""
        )
        assert lcc.rows("provider", "show", "1")[0]["roots"] == [ROOT, other]
    lcc.admin("provider", "set", "1", "--add-root", ROOT + "c/", "--remove-root", ROOT, "--yes")
    assert lcc.rows("provider", "show", "1")[0]["roots"] == [other, ROOT + "c/"]


def test_the_time_zone_of_the_lcc_again(lcc: Lcc) -> None:
    """As the help of --timezone says."""
    lcc.admin("provider", "add", "--root", ROOT, "--timezone", "Europe/Berlin")
    lcc.admin("provider", "set", "1", "--priority", "2")
    assert lcc.rows("provider", "show", "1")[0]["timezone"] == "Europe/Berlin"
    lcc.admin("provider", "set", "1", "--timezone", "")
    assert lcc.rows("provider", "show", "1")[0]["timezone"] == ""
    assert "without:" not in lcc.admin("provider", "set", "--help").output


def test_what_is_cached_outside_of_the_roots_stays_until_somebody_says_so(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT)
    assert "is kept" in lcc.admin(*NARROW).stdout
    assert orders(lcc) == ["provider-changed", "roots-taken"]
    assert "is being deleted" in lcc.admin("provider", "delete-outside", "1").stdout
    assert orders(lcc)[2:] == ["delete-outside"]
    lcc.admin("provider", "delete-outside", "2", code=1)


def test_nobody_is_asked_with_yes(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT)
    assert lcc.admin("provider", "set", "1", "--root", ROOT, "--root", ROOT + "a/", "--yes").stdout == ""
    assert "is being deleted" in lcc.admin(*NARROW, "--yes").stdout
    assert orders(lcc) == ["provider-changed", "provider-changed", "roots-taken", "delete-outside"]
    lcc.admin("provider", "set", "1", "--root", ROOT)
    assert lcc.write(get_provider, 1).former_roots == (ROOT + "a/",)


@pytest.mark.parametrize(("says", "deletes"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_who_sits_there_is_asked(lcc: Lcc, monkeypatch: pytest.MonkeyPatch, says: str, deletes: bool) -> None:
    lcc.admin("provider", "add", "--root", ROOT)
    monkeypatch.setattr("lcc.admin.accounts.providers._is_interactive", lambda: True)
    assert "outside its new roots?" in lcc.admin(*NARROW, text=says).output
    assert ("delete-outside" in orders(lcc)) == deletes


def test_a_new_password(lcc: Lcc) -> None:
    old = lcc.rows("provider", "add", "--root", ROOT)[0]["password"]
    new = lcc.admin("provider", "set", "1", "--new-password").stdout.split()[-1]
    stored = lcc.write(get_provider, 1).password_hash
    assert verify_password(new, stored)
    assert not verify_password(old, stored)
    lcc.admin("provider", "set", "1", "--password-file", "-", text="chosen\n")
    assert verify_password("chosen", lcc.write(get_provider, 1).password_hash)
    # As lcccp --pwd-file reads it (test_check_and_wrong_usage).
    lcc.admin("provider", "set", "1", "--password-file", "-", text="\ufeff  two words \t\r\nmore")
    assert verify_password("two words", lcc.write(get_provider, 1).password_hash)


def test_a_watched_provider(lcc: Lcc) -> None:
    roots = ["--root", ROOT, "--root", "http://b.example.org/"]
    watched = lcc.rows("provider", "add", "--watched", *roots)
    assert watched == [{"pid": 1, "root": ROOT}, {"pid": 2, "root": "http://b.example.org/"}]
    assert lcc.rows("provider", "add", "--watched", *roots) == watched
    said = lcc.admin("provider", "add", "--watched", "--root", ROOT, "--interval", "7", "--bandwidth", "none").stdout
    assert said == f"pid: 1 ({ROOT})\n"
    row = lcc.rows("provider", "show", "1")[0]
    assert (row["watched"], row["interval"], row["bandwidth"], row["files_max"]) == (True, 7.0, None, 10_000)
    lcc.admin("provider", "set", "1", "--interval", "none")
    assert lcc.rows("provider", "list")[0]["interval"] is None
    lcc.admin("provider", "set", "1", "--interval", "5")
    lcc.admin("provider", "set", "1", "--interval", "robots")
    row = lcc.rows("provider", "show", "1")[0]
    assert (row["interval"], row["interval_by"]) == (5.0, "")
    lcc.write(watch_site, ROOT, WatchedConfig(), 9.0)
    row = lcc.rows("provider", "show", "1")[0]
    assert (row["interval"], row["interval_by"]) == (9.0, "robots.txt")
    refused = lcc.admin("provider", "set", "1", "--add-root", ROOT + "a/", code=1).output
    assert "provider 1 is watched: it has one root" in refused
    lcc.admin("provider", "set", "1", "--new-password", "--add-root", ROOT + "a/", code=1)


@pytest.mark.parametrize("options", [["--watched"], []])
def test_a_site_whose_provider_has_moved(lcc: Lcc, options: list[str]) -> None:
    def leave(txn: Txn) -> None:
        keep_left_roots(txn, 1)
        txn.execute("DELETE FROM proots WHERE pid = 1")
        txn.execute("DELETE FROM pidb WHERE pid = 1")

    lcc.admin("provider", "add", "--watched", "--root", ROOT)
    lcc.write(leave)
    refused = lcc.admin("provider", "add", *options, "--root", ROOT, code=1).output
    assert "the site has moved to another sub-LCC: provider 1" in refused and "lcc-admin fe where 1" in refused
    assert lcc.rows("provider", "list") == []
    lcc.admin("provider", "add", "--moved", *options, "--root", ROOT)
    assert [(row["pid"], row["watched"]) for row in lcc.rows("provider", "list")] == [(2, bool(options))]


def test_what_robots_txt_asks_for(lcc: Lcc) -> None:
    def shown() -> tuple[dict[str, Any], str]:
        return lcc.rows("provider", "show", "1")[0], lcc.admin("provider", "show", "1").stdout

    lcc.admin("provider", "add", "--watched", "--root", ROOT)
    row, text = shown()
    assert row["robots"] == [] and "robots:               -" in text
    rules = "User-agent: *\nCrawl-delay: 1e9\nVisit-time: {}\n"
    columns = ("origin", "rules", "allow", "fetched_time", "checked_time", "status", "task")
    known = (ROOT, rules.format("0630-0645"), "rules", 1, 1, 200, 1)
    place = place_of(load_config(lcc.config_path), TASKS)
    tables = DirectDatabase(place.url, place.home, place.series)
    tables.now(lambda txn: txn.insert("robots", columns, [known]))
    lcc.write(watch_site, ROOT, WatchedConfig(), 1e9)
    row, text = shown()
    assert (row["interval"], row["interval_by"], row["hours"], row["hours_by"]) == (300.0, "robots.txt", "", "")
    assert row["robots"] == [
        "asks for 1000000000 s between fetches: at most 300 are obeyed",
        "asks for visits at 0630-0645 UTC: no whole slot is within, so it is not obeyed;"
        " Next: lcc-admin provider set 1 --hours HOURS",
    ]
    assert f"robots:               {'; '.join(row['robots'])}" in text
    tables.now(lambda txn: txn.execute("UPDATE robots SET rules = ?", [rules.format("0600-0845")]))
    tables.blocking.close()
    lcc.write(watch_site, ROOT, WatchedConfig(), 1e9, "6-8")
    row, _ = shown()
    assert (row["hours"], row["timezone"], row["hours_by"]) == ("6-8", "UTC", "robots.txt")
    assert row["robots"][1] == "asks for visits at 0600-0845 UTC: hours 6-8"
    lcc.admin("provider", "set", "1", "--hours", "", "--interval", "2")
    row, _ = shown()
    assert row["robots"] == [
        "asks for 1000000000 s between fetches: the operator's interval holds",
        "asks for visits at 0600-0845 UTC: the operator's hours hold",
    ]
    lcc.admin("provider", "set", "1", "--hours", "robots")
    assert shown()[0]["hours_by"] == ""
    lcc.admin("provider", "add", "--root", "http://b.example.org/")
    refused = lcc.admin("provider", "set", "2", "--hours", "robots", code=1).output
    assert "is registered: no robots.txt is asked for its hours" in refused


def test_a_watched_provider_with_a_password_is_a_registered_one(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--watched", "--root", ROOT)
    password = lcc.admin("provider", "set", "1", "--new-password", "--files-max", "none").stdout.split()[-1]
    provider = lcc.write(get_provider, 1)
    assert not provider.watched and verify_password(password, provider.password_hash)
    assert (provider.files_max, provider.space_max_bytes) == (None, 10**9)
    assert lcc.rows("provider", "add", "--watched", "--root", ROOT + "a/")[0]["pid"] == 1
    lcc.admin("provider", "set", "1", "--add-root", "http://b.example.org/")


def test_a_watched_root_that_is_registered_keeps_its_provider(lcc: Lcc) -> None:
    lcc.rows("provider", "add", "--watched", "--root", ROOT, "--root", "http://b.example.org/")
    roots = ("--root", ROOT, "--root", "http://b.example.org/")
    refused = lcc.admin("provider", "add", *roots, code=1).output
    assert f"several of these roots are watched: {ROOT} by provider 1" in refused and "--add-root" in refused
    secure = "https" + ROOT[4:]
    (added,) = lcc.rows("provider", "add", "--root", secure, "--interval", "3")
    refused = lcc.admin("provider", "set", str(added["pid"]), "--interval", "robots", code=1).output
    assert "is registered: no robots.txt is asked for its interval" in refused
    assert added["pid"] == 1 and added["password"]
    (row,) = lcc.rows("provider", "show", "1")
    assert (row["watched"], row["roots"]) == (False, [secure, ROOT])
    assert (row["interval"], row["interval_by"]) == (3.0, "operator")
    assert "interval_by:          operator" in lcc.admin("provider", "show", "1").stdout


def test_remove(lcc: Lcc) -> None:
    lcc.admin("provider", "add", "--root", ROOT)
    assert "being removed" in lcc.admin("provider", "remove", "1").stdout
    assert lcc.rows("provider", "list")[0]["removed"] is True
    lcc.admin("provider", "set", "1", "--priority", "1", code=1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["add"], "--root"),
        (["add", "--root", "www.example.org"], "--root"),
        (["add", "--root", "wais://example.org/"], "--root"),
        (["add", "--root", "http://user:pw@example.org/"], "--root"),
        (["add", "--root", ROOT + "a" * 5000], "at most 4096 characters"),
        (["add", "--root", ROOT, "--bandwidth", "0"], "at least 1"),
        (["add", "--root", ROOT, "--bandwidth", "-5"], "--bandwidth"),
        (["add", "--root", ROOT, "--bandwidth", "fast"], "neither a whole number"),
        (["add", "--root", ROOT, "--interval", "0"], "neither a number of seconds"),
        (["add", "--root", ROOT, "--interval", "1e3"], "neither a number of seconds"),
        (["add", "--root", ROOT, "--watched", "--password-file", "-"], "no password"),
        (["add", "--root", ROOT, "--hours", "25"], "--hours"),
        (["add", "--root", ROOT, "--timezone", "Europe/Nowhere"], "--timezone"),
        (["add", "--root", ROOT, "--priority", "3"], "--priority"),
        (["set", "1"], "nothing to change"),
        (["show", "0"], "PID"),
    ],
)
def test_what_makes_no_sense_is_refused(lcc: Lcc, arguments: list[str], word: str) -> None:
    assert word in lcc.admin("provider", *arguments, code=2).output
    assert lcc.rows("provider", "list") == []


@pytest.mark.parametrize("command", [["show", "7"], ["set", "7", "--priority", "1"], ["remove", "7"]])
def test_a_provider_that_is_not_there(lcc: Lcc, command: list[str]) -> None:
    assert "there is no provider 7" in lcc.admin("provider", *command, code=1).output


@pytest.mark.parametrize("text", ["", "\n", "a\tb\n"])
def test_a_bad_password_file(lcc: Lcc, text: str) -> None:
    lcc.admin("provider", "add", "--root", ROOT, "--password-file", "-", text=text, code=1)
    assert lcc.rows("provider", "list") == []


def test_json_is_one_object_a_line(lcc: Lcc) -> None:
    for _ in range(3):
        lcc.admin("provider", "add", "--root", ROOT)
    lines = lcc.admin("provider", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["pid"] for line in lines] == [1, 2, 3]
