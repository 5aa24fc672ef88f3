"""``lcc-admin search WORDS``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lcc.admin.search.words import as_query
from lcc.search.index import IndexState, TextIndex
from lcc.search.values import IndexedPage
from tests.support.admin import Lcc


def fill(home: Path) -> None:
    index = TextIndex(home / "search" / "index")
    pages = [
        ("Apples", "An orchard of apple trees.", "http://a/apples", 3000),
        ("Pears\x1b[31m", "Another orchard.", "http://b/pears", 86_400),
        ("rebuild", "How to rebuild it.", "http://b/rebuild", 1000),
    ]
    index.add(
        [
            IndexedPage(f"{number:040x}", 1, 1, url, url.split("/")[2], "html", date, title, text=text)
            for number, (title, text, url, date) in enumerate(pages)
        ]
    )
    index.commit(IndexState("token", complete=True))
    index.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_searching(lcc: Lcc) -> None:
    assert "there is no index" in lcc.admin("search", "orchard", code=1).output
    fill(lcc.folder / "home")
    out = lcc.admin("search", "--order", "date", "orchard").output
    assert out.index("Pears\ufffd[31m\n  http://b/pears\n  1970-01-02 html\n") < out.index("http://a/apples")
    assert out.endswith("2 pages, 2 shown\n") and "An orchard of apple trees" in out
    assert "http://b/pears" not in lcc.admin("search", "orchard", "-another").output
    assert lcc.admin("search", "find", "rebuild").output.startswith("rebuild\n")
    lines = lcc.admin("search", "--json", "--limit", "1", "orchard", "site:a").output.splitlines()
    (hit,) = map(json.loads, lines)
    assert (hit["url"], hit["title"]) == ("http://a/apples", "Apples")
    out = lcc.admin("search", "orchrad").output
    assert out == "no page\nDid you mean: orchard\n"
    assert "since" in lcc.admin("search", "since:x", code=2).output


def test_words_of_a_command_line() -> None:
    assert as_query(["apple tree -x"]) == "apple tree -x"
    assert as_query(["apple", "tree"]) == "apple tree"
    assert as_query(["apple tree", "x"]) == '"apple tree" x'
    assert as_query(["-title:apple tree", "x"]) == '-title:"apple tree" x'
    assert as_query(['"a b"', "x"]) == '"a b" x'


def test_help_has_the_options_of_a_search(lcc: Lcc) -> None:
    said = lcc.admin("search", "--help").stdout
    assert all(option in said for option in ("--order [rank|date]", "--limit", "--json", "rebuild", "find"))
