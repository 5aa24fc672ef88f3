"""The pure rules: keys, notices, outcomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.config import QmConfig
from lcc.domain.fetches.retries import delay_seconds
from lcc.domain.fetches.timeslots import TimeSlots
from lcc.domain.keys import pid_of, url_key
from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.absorb import decide, is_unchanged
from lcc.domain.notices.rules import QueueRules
from lcc.domain.urls import Roots
from lcc.model import (
    FETCH_NOW,
    Action,
    CachedState,
    Outcome,
    QueuedState,
    Quota,
    Source,
    Standing,
    UrlNotice,
    description_of,
)
from lcc.storage.database.tables.key_ranges import all_views_key, is_all_views, provider_range, views_range

RULES = QueueRules(attempts_max=3)
MD5 = "a" * 32
TOLD = UrlNotice("u", md5=MD5, length=1, mtime=2, mimetype="text/html")


@given(pid=st.integers(1, 2**32 - 1), curl=st.text(), mimetype=st.text())
def test_keys(pid: int, curl: str, mimetype: str) -> None:
    key = url_key(pid, curl, mimetype)
    assert len(key) == 20 and pid_of(key) == pid
    assert is_all_views(key) == (not mimetype)
    assert all_views_key(key) == url_key(pid, curl, "")
    low, high = views_range(key)
    assert low <= key <= high
    low, high = provider_range(pid)
    assert low <= key <= high
    assert not low <= url_key(pid - 1 if pid > 1 else 2, curl, mimetype) <= high


def cached(**values: object) -> CachedState:
    fields = {"told_md5": MD5, "told_length": 1, "told_mtime": 2, "md5": "b" * 32, "length": 7, "mtime": 8}
    return CachedState(**({"cached": True, "connseq": 5} | fields | values))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"md5": "b" * 32}, {"length": 2}, {"mtime": 3}, {"md5": ""}, {"length": None}])
def test_unchanged_is_all_three_told_and_the_same(change: dict[str, object]) -> None:
    assert is_unchanged(TOLD, cached())
    assert not is_unchanged(TOLD._replace(**change), cached())  # type: ignore[arg-type]
    nothing_told = cached(told_md5="", told_length=None, told_mtime=None)
    assert not is_unchanged(TOLD, nothing_told)
    assert is_unchanged(TOLD._replace(md5="b" * 32, length=7, mtime=8), nothing_told)


@pytest.mark.parametrize("missing", [{"md5": ""}, {"length": None}, {"mtime": None}])
def test_what_is_missing_counts_as_changed_also_if_it_was_missing_before(missing: dict[str, None]) -> None:
    notice = TOLD._replace(**missing)
    assert (
        is_unchanged(notice, cached(told_md5=notice.md5, told_length=notice.length, told_mtime=notice.mtime)) is False
    )


FETCHED = cached()
GONE = cached(cached=False)
WAITING, NOTHING = QueuedState(True, 5), QueuedState(False, 5)


@pytest.mark.parametrize(
    ("notice", "connseq", "floor", "queued", "stored", "action"),
    [
        (TOLD, 1, 0, None, None, Action.FETCH),
        (TOLD, 5, 5, None, None, Action.FETCH),
        (TOLD, 4, 5, None, None, Action.OLDER),
        (TOLD, 4, 0, WAITING, None, Action.OLDER),
        (TOLD, 4, 0, None, FETCHED, Action.OLDER),
        (TOLD, 4, 0, None, GONE, Action.OLDER),
        (TOLD, 5, 0, None, FETCHED, Action.CONFIRM),
        (TOLD._replace(furl="u"), 5, 0, None, FETCHED, Action.CONFIRM),
        (TOLD._replace(furl="v"), 5, 0, None, FETCHED, Action.FETCH),
        (TOLD._replace(burl="b"), 5, 0, None, FETCHED, Action.UPDATE),
        (TOLD._replace(subtype="a: b"), 5, 0, None, FETCHED, Action.UPDATE),
        (TOLD._replace(hours="0-8"), 5, 0, None, FETCHED, Action.UPDATE),
        (TOLD._replace(hours="0-8", furl="v"), 5, 0, None, FETCHED, Action.FETCH),
        (TOLD._replace(burl="b"), 4, 0, None, FETCHED, Action.OLDER),
        (TOLD._replace(burl="b"), 5, 0, WAITING, FETCHED, Action.FETCH),
        (TOLD._replace(burl="b", md5=""), 5, 0, None, FETCHED, Action.FETCH),
        (TOLD._replace(burl="b", ifabsent=True), 5, 0, None, FETCHED, Action.KNOWN),
        (TOLD, 5, 0, None, cached(furl="v"), Action.FETCH),
        (TOLD._replace(furl="v"), 5, 0, None, cached(furl="v"), Action.CONFIRM),
        (TOLD, 5, 0, None, cached(description=description_of(TOLD._replace(burl="b", hours="0-8"))), Action.UPDATE),
        (TOLD, 5, 0, None, GONE, Action.FETCH),
        (TOLD, 5, 0, WAITING, FETCHED, Action.FETCH),
        (TOLD._replace(md5=""), 5, 0, None, FETCHED, Action.FETCH),
        (TOLD._replace(delete=True), 5, 0, None, FETCHED, Action.DELETE),
        (TOLD._replace(delete=True), 5, 0, None, None, Action.DELETE),
        (TOLD._replace(delete=True), 4, 0, NOTHING, None, Action.OLDER),
        (TOLD._replace(named_only=True, delete=True), 5, 0, WAITING, FETCHED, Action.NAMED),
        (TOLD._replace(ifabsent=True, md5=""), 5, 0, None, FETCHED, Action.KNOWN),
        (TOLD._replace(ifabsent=True), 5, 0, WAITING, None, Action.KNOWN),
        (TOLD._replace(ifabsent=True), 5, 0, NOTHING, GONE, Action.FETCH),
        (TOLD._replace(ifabsent=True), 5, 0, None, None, Action.FETCH),
    ],
)
def test_what_a_notice_does(
    notice: UrlNotice,
    connseq: int,
    floor: int,
    queued: QueuedState | None,
    stored: CachedState | None,
    action: Action,
) -> None:
    assert decide(notice, connseq, floor, queued, stored) is action
    assert RULES.action(notice, connseq, floor, queued, stored) is action


@pytest.mark.parametrize(
    ("code", "moved", "fetch", "attempts", "outcome"),
    [
        (0, False, True, 0, Outcome.STORE),
        (0, True, True, 0, Outcome.STORE_AGAIN),
        (0, False, False, 0, Outcome.DISCARD),
        (0, True, None, 0, Outcome.DISCARD),
        (404, False, None, 0, Outcome.DISCARD),
        (503, False, True, 0, Outcome.RETRY),
        (503, False, True, 1, Outcome.RETRY),
        (503, False, True, 2, Outcome.KEEP),
        (503, True, True, 0, Outcome.AGAIN),
        (404, False, True, 0, Outcome.DELETE),
        (410, False, True, 0, Outcome.DELETE),
        (404, True, True, 0, Outcome.AGAIN),
        (403, False, True, 0, Outcome.KEEP),
        (1301, False, True, 9, Outcome.HOLD),
        (1301, True, True, 0, Outcome.HOLD),
        (1412, False, True, 0, Outcome.RETRY),
        (77777, False, True, 0, Outcome.KEEP),
    ],
)
def test_what_a_result_does(code: int, moved: bool, fetch: bool | None, attempts: int, outcome: Outcome) -> None:
    assert RULES.outcome(code, 1, fetch, 2 if moved else 1, attempts) is outcome


def test_the_same_content() -> None:
    assert RULES.same_content(MD5, 5, MD5, 5)
    assert not RULES.same_content(MD5, 5, MD5, 6)
    assert not RULES.same_content(MD5, 5, "b" * 32, 5)
    assert not RULES.same_content("", 0, "", 0)


@pytest.mark.parametrize(
    ("code", "moved", "unreached", "outcome"),
    [
        (1301, False, 18, Outcome.HOLD),
        (1301, False, 19, Outcome.KEEP),
        (1301, True, 19, Outcome.HOLD),
        (1302, False, 99, Outcome.KEEP),
        (1415, False, 0, Outcome.AGAIN),  # its hours were over: nothing was found out
        (1415, True, 0, Outcome.AGAIN),
    ],
)
def test_an_error_of_the_site_is_final_after_twenty_attempts(
    code: int, moved: bool, unreached: int, outcome: Outcome
) -> None:
    assert RULES.outcome(code, 1, True, 2 if moved else 1, 0, unreached) is outcome


def test_the_rules_are_those_of_the_configuration() -> None:
    settings = QmConfig(
        attempts_max=2,
        hold_attempts_max=3,
        retry_initial=10.0,
        retry_maximum=20.0,
        mass_deletion_share=0.1,
        mass_deletion_floor=5,
    )
    slots = TimeSlots(slots=168)
    rules = QueueRules.configured(settings, slots, MimePatterns(["text/*"]))
    assert rules == QueueRules(2, 3, slots, 10.0, 20.0, 0.1, 5, rules.mimetypes)
    assert rules.takes_type("text/html") and not rules.takes_type("image/png")
    assert QueueRules.configured(settings, slots).takes_type("image/png")
    assert [rules.outcome(503, 1, True, 1, attempts) for attempts in (0, 1)] == [Outcome.RETRY, Outcome.KEEP]
    assert [rules.outcome(1301, 1, True, 1, 0, before) for before in (1, 2)] == [Outcome.HOLD, Outcome.KEEP]
    key = url_key(1, "http://site/", "text/html")
    assert rules.retry_time(9, key, 1000) == 1000 + delay_seconds(9, key, 10.0, 20.0) <= 1020
    assert rules.is_mass_deletion(6, 59) and not rules.is_mass_deletion(6, 60) and not rules.is_mass_deletion(5, 5)


def test_the_rules_without_a_configuration() -> None:
    key = url_key(1, "http://site/", "text/html")
    assert RULES.key(1, "http://site/", "text/html") == key
    assert RULES.retry_time(1, key, 1000) == 1000 + delay_seconds(1, key, 60.0, 3600.0)
    assert RULES.retry_time(99, key, 1000) == 1000 + delay_seconds(99, key, 60.0, 3600.0)
    assert RULES.is_mass_deletion(101, 201) and not RULES.is_mass_deletion(101, 202)
    assert not RULES.is_mass_deletion(100, 100)
    assert RULES.takes_type("x/y")
    noon = 1_780_000_000 // 86400 * 86400 + 12 * 3600
    assert QueueRules(1, hold_attempts_max=2).outcome(1301, 1, True, 1, 0) is Outcome.HOLD
    assert RULES.slot("", "0-8", "", noon) == RULES.slot("12-13", "", "", noon) == FETCH_NOW
    assert RULES.slot("3-4", "0-8", "", noon) == RULES.timeslots.slot("3-4", "0-8", "", noon) == 3
    assert RULES.over_quota(Quota(1, None), True, 1, 0, 1) == 1501
    assert RULES.over_quota(Quota(None, 9), False, 1, 9, 1) == 1502
    assert RULES.over_quota(Quota(None, None), True, 1, 9, 1) == 0
    assert RULES.prefixes(["http://site/a"]) == Roots(["http://site/a"]).prefixes
    assert RULES.may_be_unchanged(TOLD, FETCHED) and not RULES.may_be_unchanged(TOLD._replace(length=3), FETCHED)


def test_the_rules_among_several_words() -> None:
    said = RULES.decision(TOLD, Source.TOLD, 6, 0, (), None, FETCHED)
    assert (said.action, said.standing.connseq) == (Action.CONFIRM, 6)
    assert RULES.decision(TOLD, Source.TOLD, 6, 7, (), None, FETCHED).action is Action.OLDER
    assert RULES.without_told(Standing(5, Source.TOLD | Source.FEED), 6) == (
        Source.FEED,
        Standing(5, Source.FEED, "1:6"),
    )
