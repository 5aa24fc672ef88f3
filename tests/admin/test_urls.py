"""``lcc-admin urls``: the cache and its changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lcc.admin.cache import urls as urls_module
from lcc.storage.disk.content_paths import content_path
from lcc.storage.views import selected
from tests.support.admin import Lcc

DELETED = {"state": 0, "md5": "", "len": None, "mtime": None, "fetched_time": None, "fetched_fileid": None}


@pytest.fixture(params=[1000, 2])
def page_rows(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Everything in one page, and in many."""
    monkeypatch.setattr(selected, "EXAMINED_ROWS", request.param)
    return int(request.param)


def changes(lcc: Lcc, token: str, *arguments: str) -> tuple[list[tuple[str, str]], str]:
    """What changed, as (curl's last part, state), and the next token."""
    *rows, last = lcc.rows("urls", "--since", token, *arguments)
    return [(row["curl"].rsplit("/", 1)[1], row["state"]) for row in rows], last["next"]


def test_a_row(lcc: Lcc) -> None:
    lcc.put([{"key": 5, "subtype": "a: b"}])
    assert lcc.rows("urls") == [
        {
            "pid": 1,
            "curl": "http://www.example.org/5.html",
            "furl": "http://www.example.org/5.html",
            "burl": "http://www.example.org/5.html",
            "mimetype": "text/html",
            "subtype": "a: b",
            "md5": "0123456789abcdef0123456789abcdef",
            "len": 12,
            "mtime": 1_700_000_000,
            "fetched_time": 1_700_000_001,
            "fetched_machineid": 1,
            "fetched_fileid": 5,
            "path": str(lcc.folder / "home" / "content" / content_path(5)),
            "change": 1,
            "state": "cached",
            "source": "told",
        }
    ]


def test_other_urls(lcc: Lcc) -> None:
    lcc.put([{"key": 1, "furl": "http://f.example.org/", "burl": "-"}, {"key": 2, "burl": "http://b.example.org/"}])
    first, second = lcc.rows("urls")
    assert (first["furl"], first["burl"]) == ("http://f.example.org/", None)
    assert (second["furl"], second["burl"]) == (second["curl"], "http://b.example.org/")


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5])
def test_listing_in_pages(lcc: Lcc, page_rows: int, count: int) -> None:
    lcc.put([{"key": key, "pid": 1 + key % 2} for key in range(count)])
    lcc.put([{"key": 100, **DELETED}])
    rows = lcc.rows("urls")
    assert sorted(row["fetched_fileid"] for row in rows) == list(range(count))
    assert [row["fetched_fileid"] for row in lcc.rows("urls", "--provider", "2")] == list(range(1, count, 2))
    for limit in (1, 2, 3):
        assert lcc.rows("urls", "--limit", str(limit)) == rows[:limit]


def test_following_the_changes(lcc: Lcc, page_rows: int) -> None:
    lcc.put([{"key": key} for key in range(5)])
    everything, token = changes(lcc, "0")
    assert everything == [(f"{key}.html", "cached") for key in range(5)]
    assert changes(lcc, "") == (everything, token)
    assert changes(lcc, token) == ([], token)
    lcc.put([{"key": 3}, {"key": 1, **DELETED}, {"key": 9}])
    told, later = changes(lcc, token)
    assert told == [("3.html", "cached"), ("1.html", "deleted"), ("9.html", "cached")]
    assert changes(lcc, later) == ([], later)
    assert changes(lcc, token)[0] == told


def test_what_belongs_to_the_content_goes_with_it(lcc: Lcc) -> None:
    lcc.put([{"key": 1, **DELETED}])
    row = lcc.rows("urls", "--since", "0")[0]
    gone = ("md5", "len", "mtime", "fetched_time", "fetched_machineid", "fetched_fileid", "path")
    assert {row[name] for name in gone} == {None}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_following_with_a_limit_misses_nothing(lcc: Lcc, page_rows: int, limit: int) -> None:
    lcc.put([{"key": key} for key in range(5)])
    seen: list[tuple[str, str]] = []
    token = "0"
    for _ in range(10):
        rows, token = changes(lcc, token, "--limit", str(limit))
        assert len(rows) <= limit
        seen += rows
    assert seen == changes(lcc, "0")[0]


def test_the_changes_of_one_provider(lcc: Lcc, page_rows: int) -> None:
    lcc.put([{"key": key, "pid": 1 + key % 2} for key in range(6)])
    rows, token = changes(lcc, "0", "--provider", "2")
    assert [name for name, _ in rows] == ["1.html", "3.html", "5.html"]
    lcc.put([{"key": 7, "pid": 1}, {"key": 8, "pid": 2}, {"key": 9, "pid": 1}])
    assert changes(lcc, token, "--provider", "2")[0] == [("8.html", "cached")]
    assert "for another selection" in lcc.admin("urls", "--since", token, code=2).output


def test_reading_ends_although_more_comes(lcc: Lcc, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy LCC there is always more: what came after the question is left to the next one."""
    monkeypatch.setattr(selected, "EXAMINED_ROWS", 2)
    lcc.put([{"key": key} for key in range(5)])

    class Busy(urls_module.Listing):
        written = 0

        def row(self, row: Any) -> None:
            Busy.written += 1
            lcc.put([{"key": 100 + Busy.written}])
            super().row(row)

    monkeypatch.setattr(urls_module, "Listing", Busy)
    rows, token = changes(lcc, "0")
    assert 5 <= len(rows) <= 6
    monkeypatch.undo()
    assert [name for name, _ in rows + changes(lcc, token)[0]] == [
        *(f"{key}.html" for key in range(5)),
        *(f"{100 + number}.html" for number in range(1, Busy.written + 1)),
    ]


def test_tokens_that_cannot_be_continued(lcc: Lcc, tmp_path: Path) -> None:
    lcc.put([{"key": 1}])
    _, token = changes(lcc, "0")
    assert "no token" in lcc.admin("urls", "--since", "yesterday", code=2).output
    epoch, number, *rest = token.split(".")
    ahead = ".".join([epoch, str(int(number) + 1), *rest])
    assert "start again" in lcc.admin("urls", "--since", ahead, code=3).output
    other = tmp_path / "other"
    other.mkdir()
    restored = Lcc(other, "sqlite:lcc.db")
    restored.admin("init")
    assert "start again" in restored.admin("urls", "--since", token, code=3).output


def test_an_empty_table(lcc: Lcc) -> None:
    assert lcc.admin("urls").stdout == "no URL is cached\n"
    assert lcc.admin("urls", "--since", "0").stdout.startswith("nothing has changed\nnext: ")
    assert lcc.admin("provider", "list").stdout == "no providers\n"
    assert lcc.rows("urls") == lcc.rows("provider", "list") == []


def test_files_of_other_machines_have_no_path_here(lcc: Lcc) -> None:
    lcc.put([{"key": 1}, {"key": 2, "fetched_machineid": 2}])
    _, own, other = lcc.admin("urls").stdout.splitlines()
    assert own.endswith(f"  {lcc.folder / 'home' / 'content' / content_path(1)}")
    assert other.endswith(f"  machine 2: {content_path(2)}")
    assert lcc.rows("urls")[1]["path"] == str(lcc.folder / "home" / "content" / content_path(2))


def test_the_table(lcc: Lcc) -> None:
    lcc.put([{"key": 1}, {"key": 2, **DELETED}])
    title, row = lcc.admin("urls").stdout.splitlines()
    assert title.split()[:3] == ["pid", "change", "state"]
    assert row.split()[-2] == "http://www.example.org/1.html"
    lines = lcc.admin("urls", "--since", "0").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["cached", "deleted"]
    assert lines[-1].startswith("next: ")
