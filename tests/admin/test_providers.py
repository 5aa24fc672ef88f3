"""``lcc-admin provider``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lcc.storage.passwords import verify_password
from lcc.storage.providers import get_provider

from .conftest import Lcc

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
        "--insecure", "--contact", "me@example.org",
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
        (["add", "--root", "gopher://example.org/"], "--root"),
        (["add", "--root", "http://user:pw@example.org/"], "--root"),
        (["add", "--root", ROOT + "a" * 5000], "at most 4096 characters"),
        (["add", "--root", ROOT, "--bandwidth", "0"], "at least 1"),
        (["add", "--root", ROOT, "--bandwidth", "-5"], "--bandwidth"),
        (["add", "--root", ROOT, "--bandwidth", "fast"], "neither a whole number"),
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
