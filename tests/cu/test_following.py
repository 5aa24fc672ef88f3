"""Following the changes: each answer applied to a copy, against a plain dictionary, on each database."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.model import CachedUrl
from lcc.roles.cu.query import Query
from lcc.roles.cu.selection import pages
from lcc.storage.views import selected
from lcc.storage.views.selected import Selection, Times
from tests.support.cache import Cache

SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

CURLS = st.sampled_from([f"http://{host}/{path}" for host in "ab" for path in ("", "x", "x/y")])
PIDS, TYPES = st.integers(1, 3), st.sampled_from(["text/html", "text/plain", "image/png"])
VARYING = st.fixed_dictionaries(
    {
        "subtype": st.sampled_from(["", "s: t"]),
        "fetched_time": st.integers(0, 3),
        "mtime": st.none() | st.integers(0, 3),
    }
)
STEPS = st.lists(st.tuples(PIDS, CURLS, TYPES, st.none() | VARYING), max_size=15)
TIMES = st.builds(Times, st.none() | st.integers(0, 3), st.none() | st.integers(0, 3))
SELECTIONS = st.builds(
    Selection,
    st.none() | st.frozensets(PIDS),
    st.sampled_from([(), ("text/*",), ("image/png",), ("image/*", "text/html")]),
    st.sampled_from(["", "http://a/", "http://a/x"]),
    st.sampled_from(["", "s: t"]),
    TIMES,
    TIMES,
)


def _wanted(selection: Selection, pid: int, curl: str, mimetype: str, varying: dict[str, Any]) -> bool:
    def within(times: Times, time: int | None) -> bool:
        if times.start is None and times.end is None:
            return True
        return time is not None and (times.start or 0) <= time and (times.end is None or time < times.end)

    return (
        (selection.providers is None or pid in selection.providers)
        and (not selection.mimetypes or {mimetype, mimetype.split("/")[0] + "/*"} & set(selection.mimetypes) != set())
        and curl.startswith(selection.prefix)
        and selection.subtype in ("", varying["subtype"])
        and within(selection.fetched, varying["fetched_time"])
        and within(selection.modified, varying["mtime"])
    )


HISTORIES = {
    "selection": SELECTIONS,
    "rounds": st.lists(STEPS, min_size=1, max_size=4),
    "limit": st.none() | st.integers(1, 3),
    "examined": st.sampled_from([1, 2, 3, 1000]),
}


# One test for each database: a test of hypothesis cannot be parametrised under pytest-twisted.
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@settings(SHARED, max_examples=60)
@given(**HISTORIES)
def test_following(cache: Cache, selection: Selection, rounds: list[Any], limit: int | None, examined: int) -> None:
    with patch.object(selected, "EXAMINED_ROWS", examined):
        follow(cache, selection, rounds, limit)


@pytest.mark.parametrize("backend", ["mariadb"], indirect=True)
@settings(SHARED, max_examples=8)
@given(**HISTORIES)
def test_following_on_mariadb(
    cache: Cache, selection: Selection, rounds: list[Any], limit: int | None, examined: int
) -> None:
    with patch.object(selected, "EXAMINED_ROWS", examined):
        follow(cache, selection, rounds, limit)


def follow(cache: Cache, selection: Selection, rounds: list[Any], limit: int | None) -> None:
    """Applying each answer to an empty copy gives, in the end, what a question without a token gives, and what a
    plain dictionary that saw the same history holds."""
    cache.clear()
    model: dict[tuple[int, str, str], dict[str, Any]] = {}
    copy: dict[tuple[int, str, str], CachedUrl] = {}
    since = "0"
    for steps in [*rounds, []]:
        for pid, curl, mimetype, varying in steps:
            if varying is None:
                cache.delete(pid, curl, mimetype)
                model.pop((pid, curl, mimetype), None)
            else:
                cache.put(pid, curl, mimetype, **varying)
                model[pid, curl, mimetype] = varying
        for _ in range(100):
            rows = []
            for page in pages(cache.interact, Query(selection, since, limit)):
                rows += page.rows
                since = str(page.token)
            for row in rows:
                if row.state == "deleted":
                    copy.pop((row.pid, row.curl, row.mimetype), None)
                else:
                    copy[row.pid, row.curl, row.mimetype] = row
            if not rows:
                break
        there = {name for name, varying in model.items() if _wanted(selection, *name, varying)}
        assert set(copy) == there
    now = [row for page in pages(cache.interact, Query(selection)) for row in page.rows]
    assert {(row.pid, row.curl, row.mimetype): row for row in now} == copy
