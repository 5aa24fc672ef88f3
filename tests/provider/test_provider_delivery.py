"""What was refused, or could not be fetched, is told again; whatever happens on the way."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider import delivery as delivery_module
from lcc.provider.client import Submission
from lcc.provider.statefile import UNSURE, StateFile

from .model_lcc import ROOT, ModelLcc, publish

quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def page(name: str, md5: str = "0", mimetype: str = "text/html", length: str = "10") -> dict[str, str]:
    return {"c": name, "m": mimetype, "md5": md5 * 32, "len": length, "mtime": "1"}


def greeting(*codes: tuple[str, int], files: int | None = None, space: int | None = None) -> InitAccepted:
    """One that shows these errors, and has so much room."""
    faults = tuple(UrlFault(code, "", ROOT + name, {"c": name, "m": "text/html"}) for name, code in codes)
    return InitAccepted(1, "", ("text/*",), 0, files, 0, space, error_count=len(faults), errors=faults)


def names(elements: list[dict[str, str]]) -> list[str]:
    return [f"{'-' if element.get('op') else ''}{element['c']}" for element in elements]


def test_what_was_refused_is_told_again_until_it_is_taken(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    good, bad = page("good"), page("bad", mimetype="video/x")
    for _ in range(2):
        assert names(publish(lcc, path, [good, bad]).sent)[-1] == "bad"
    assert publish(lcc, path, [good, page("bad")]).sent == [page("bad")]
    assert publish(lcc, path, [good, page("bad")]).sent == []
    # What the LCC has from earlier is deleted once it is gone; what it never had is not.
    worse = {**page("bad", "1"), "md5": "x"}
    never = {**page("never"), "md5": "x"}
    assert names(publish(lcc, path, [good, worse, never]).sent) == ["bad", "never"]
    assert [entry.curl for entry in StateFile(path).entries() if entry.digest == UNSURE] == ["bad"]
    assert names(publish(lcc, path, [good]).sent) == ["-bad"]
    assert [url for url, _ in lcc.cache] == [ROOT + "good"]
    assert publish(lcc, path, [good]).sent == []


@pytest.mark.parametrize("full", [False, True])
def test_a_run_with_a_wrong_prefix_is_mended_by_the_next(tmp_path: Path, full: bool) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page(f"{number}") for number in range(12)]
    for _ in range(2):
        assert len(publish(lcc, path, site, prefix="http://wrong.example/", full=full).sent) == 12
        assert lcc.cache == {}
    assert len(publish(lcc, path, site).sent) == 12
    assert len(lcc.cache) == 12
    # With all of them in the cache: an older LCC takes the full set, and deletes.
    publish(lcc, path, site, prefix="http://wrong.example/", full=True)
    assert lcc.cache == {}
    assert len(publish(lcc, path, site).sent) == 12
    assert len(lcc.cache) == 12
    assert publish(lcc, path, site).sent == []


def test_a_refused_deletion(tmp_path: Path) -> None:
    """Outside of the roots: it may be there since they were others.  What is no URL cannot be there."""
    lcc, path = ModelLcc(roots=(ROOT, "http://old.example/")), tmp_path / "state"
    publish(lcc, path, [page("http://old.example/a"), page("b")])
    lcc.roots = (ROOT,)
    for _ in range(2):
        assert names(publish(lcc, path, [page("b")]).sent) == ["-http://old.example/a"]
    lcc.roots = (ROOT, "http://old.example/")
    assert names(publish(lcc, path, [page("b")]).sent) == ["-http://old.example/a"]
    assert publish(lcc, path, [page("b")]).sent == []
    path.write_text('lcc-state 2 t ""\nab ["http://u@site.example/", "text/html"]\nend 1\n')
    assert names(publish(lcc, path, [page("b")]).sent) == ["-http://u@site.example/", "b"]
    assert publish(lcc, path, [page("b")]).sent == []


def test_more_is_refused_than_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_module, "REFUSED_MAX", 2)
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("good"), *(page(f"{number}", mimetype="video/x") for number in range(3))]
    run = publish(lcc, path, site)
    assert "more than 2 URLs were refused" in run.trouble
    assert len(publish(lcc, path, site, token="u").sent) == 4
    assert "good" in names(publish(lcc, path, [page("good")], token="v").sent)
    assert publish(lcc, path, [page("good")], token="w").sent == []


def test_an_lcc_that_does_not_say_what_it_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"

    class Silent(ModelLcc):
        def take(self, *arguments: Any) -> Submission:
            answer = ModelLcc.take(self, *arguments)
            return attrs.evolve(answer, received=answer.received - 1)

    run = publish(Silent(), path, [page("a"), page("b")])
    assert "did not list the refused URLs" in run.trouble
    assert names(publish(ModelLcc(), path, [page("a"), page("b")], token="u").sent) == ["a", "b"]


def test_what_could_not_be_fetched_is_told_again(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("a"), page("b"), page("c")]
    publish(lcc, path, site)
    lcc.welcome = greeting(("a", 404), ("%62", 500), ("gone", 404))
    # b has changed anyway; of a page that is not there nothing is told.
    site[1] = page("b", "1")
    run = publish(lcc, path, site)
    assert (names(run.sent), run.noted.failed) == (["b"], 1)
    lcc.welcome = greeting()
    run = publish(lcc, path, site)
    assert (names(run.sent), run.difference.retold) == (["a"], 1)
    assert publish(lcc, path, site).sent == []
    # It fails once more, and then it is deleted.
    lcc.welcome = greeting(("a", 404))
    publish(lcc, path, site)
    lcc.welcome = greeting()
    assert names(publish(lcc, path, site[1:]).sent) == ["-a"]


def test_over_quota_waits_for_room(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("a"), page("b", length="500"), page("c")]
    publish(lcc, path, site)
    lcc.welcome = greeting(("a", 1501), ("b", 1502), files=0, space=499)
    publish(lcc, path, site)
    lcc.welcome = greeting(files=0, space=499)
    for _ in range(2):
        run = publish(lcc, path, site)
        assert (run.sent, run.noted.held) == ([], 2)
    # What has changed meanwhile would not fit either; what is new is tried.
    site[1] = page("b", "1", length="500")
    run = publish(lcc, path, [*site, page("d")])
    assert (names(run.sent), run.noted.held) == (["d"], 2)
    lcc.welcome = greeting(files=1, space=499)
    assert names(publish(lcc, path, [*site, page("d")]).sent) == ["a"]
    # A deletion makes room, nobody knows how much.
    lcc.welcome = greeting(files=0, space=499)
    assert names(publish(lcc, path, site).sent) == ["-d", "b"]
    lcc.welcome = greeting(("a", 1501), files=None)
    publish(lcc, path, site)
    lcc.welcome = greeting(files=None, space=None)
    assert names(publish(lcc, path, site).sent) == ["a"]
    assert publish(lcc, path, site).sent == []
    # A full set names everything.
    lcc.welcome = greeting(("a", 1501), files=0)
    publish(lcc, path, site)
    lcc.welcome = greeting(files=0)
    assert len(publish(lcc, path, site, full=True).sent) == 3


SITES = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["good", "new", "bad"]), max_size=4
)  # fmt: skip
FATES = st.sampled_from(["accepted", "accepted", "lost", "cut"])
FAILING = st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([404, 1501])), max_size=2)


@quick
@given(steps=st.lists(st.tuples(SITES, FATES, FAILING), max_size=5), last=SITES)
def test_nothing_is_forgotten(
    tmp_path: Path, steps: list[tuple[dict[str, str], str, list[tuple[str, int]]]], last: dict[str, str]
) -> None:
    """Whatever is refused, fails and gets lost, two good runs later the LCC has all that it takes, and what was shown
    as failed has been told again."""
    path = tmp_path / "state"
    for name in ("state", "state.pending"):
        (tmp_path / name).unlink(missing_ok=True)
    lcc = ModelLcc()
    owed: set[str] = set()

    def site(described: dict[str, str]) -> list[dict[str, str]]:
        kinds = {"good": "0" * 32, "new": "1" * 32, "bad": "no md5"}
        return [{"c": name, "m": "text/html", "md5": kinds[kind]} for name, kind in described.items()]

    for number, (described, fate, failing) in enumerate(steps):
        lcc.welcome = greeting(*failing, files=1)
        run = publish(lcc, path, site(described), fate=fate, token=f"t{number}")
        told = set(names(run.sent))
        if fate != "cut":  # then the LCC shows them once more
            owed = (owed - told) | ({name for name, _ in failing} & described.keys() - told)
        if fate == "accepted":
            assert not (tmp_path / "state.pending").exists()
    lcc.welcome = greeting()
    told = set(names(publish(lcc, path, site(last), token="one").sent))
    assert owed & last.keys() <= told
    taken = {(ROOT + name, "text/html"): ("0" if kind == "good" else "1") * 32
             for name, kind in last.items() if kind != "bad"}  # fmt: skip
    assert {key: md5 for key, md5 in lcc.cache.items() if last.get(key[0].removeprefix(ROOT)) != "bad"} == taken
    refused = sorted(name for name, kind in last.items() if kind == "bad")
    assert sorted(names(publish(lcc, path, site(last), token="two").sent)) == refused


def dead_site(path: Path, times: list[int]) -> list[int]:
    """When a page is told whose fetches all fail, on runs at these times; each failure is shown by the next run."""
    lcc, told = ModelLcc(), []
    for now in times:
        run = publish(lcc, path, [page("dead"), page("good")], now=now)
        lcc.welcome = greeting(("dead", 404)) if "dead" in names(run.sent) else greeting()
        if "dead" in names(run.sent):
            told.append(now)
    return told


MINUTE, HOUR, DAY = 60, 3600, 86400


def test_what_is_dead_for_good_is_told_ever_more_rarely(tmp_path: Path) -> None:
    every_minute = list(range(0, 3 * HOUR, MINUTE))
    every_hour = list(range(3 * HOUR, 10 * DAY, HOUR))
    told = dead_site(tmp_path / "state", every_minute + every_hour)
    assert told[:2] == [0, 2 * MINUTE]  # the run after that which has shown it
    waits = [later - earlier for earlier, later in pairwise(told)]
    assert waits == sorted(waits) and len([when for when in told if when < 3 * HOUR]) < 10
    assert DAY <= max(waits) <= DAY + 2 * HOUR and len(told) < 25
    # Who publishes once a day sees no wait.
    assert len(dead_site(tmp_path / "daily", list(range(0, 20 * DAY, DAY + 1)))) >= 9


def test_a_failed_page_that_changes_is_told_at_once(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("a"), page("b")]
    for now in (0, MINUTE, 2 * MINUTE):
        publish(lcc, path, site, now=now)
        lcc.welcome = greeting(("a", 404), ("b", 503)) if now == 0 else greeting()
    lcc.welcome = greeting(("a", 404), ("b", 503))
    run = publish(lcc, path, site, now=20 * MINUTE)
    assert (run.sent, run.noted.failed, run.noted.wait_seconds) == ([], 2, 19 * MINUTE)
    # They are shown once more (the operator has tried them): the wait stays.
    assert publish(lcc, path, site, now=30 * MINUTE).noted.wait_seconds == 9 * MINUTE
    lcc.welcome = greeting()
    run = publish(lcc, path, site, now=35 * MINUTE)
    assert (run.sent, run.difference.waiting) == ([], 2)
    site[0] = page("a", "1")
    assert names(publish(lcc, path, site, now=36 * MINUTE).sent) == ["a"]
    assert names(publish(lcc, path, site, now=37 * MINUTE, retry_failed=True).sent) == ["b"]
    assert publish(lcc, path, site, now=38 * MINUTE, retry_failed=True).sent == []


@pytest.mark.parametrize("step", [-3 * DAY, 3 * DAY])
def test_a_clock_that_is_set_prolongs_no_wait(tmp_path: Path, step: int) -> None:
    path, start = tmp_path / "state", 10 * DAY
    times = list(range(start, start + 6 * HOUR, 10 * MINUTE))
    told = dead_site(path, [*times, *(start + step + after for after in range(0, 2 * DAY, 3 * HOUR))])
    assert [when for when in told if when not in times]


def test_what_is_held_for_want_of_room_is_not_counted_twice(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("a"), page("b")]
    publish(lcc, path, site)
    lcc.welcome = greeting(("a", 1501), ("b", 1501), files=0)
    publish(lcc, path, site)
    lcc.welcome = greeting(files=0)
    # Both wait for room, and one of them has changed: one is held that would be told again.
    run = publish(lcc, path, [page("a"), page("b", "1")])
    assert (run.sent, run.noted.held, run.difference.retold, run.retold) == ([], 2, 1, 0)
    state = StateFile(path)
    assert [entry.digest[:6] for entry in state.entries()] == ["!1501,", "!1501,"]


def test_a_prefix_in_another_spelling_is_the_same(tmp_path: Path) -> None:
    lcc, path = ModelLcc(), tmp_path / "state"
    site = [page("a"), page("b"), page("c", length="f")]
    site[0]["f"] = "a?f"
    publish(lcc, path, site[:2])
    for prefix in ("http://Site.example/", "HTTP://site.example:80/", ROOT + "./", ROOT + "x/../"):
        assert publish(lcc, path, site[:2], prefix=prefix).sent == []
        assert publish(lcc, path, site[:2], prefix=prefix, state_prefix=prefix).sent == []
    assert publish(lcc, path, site[1:2], prefix="HTTP://site.example:80/").sent == [
        {"c": "a", "m": "text/html", "op": "delete"}
    ]
