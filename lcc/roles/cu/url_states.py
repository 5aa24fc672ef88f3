"""``/states``: what became of URLs.

A line of the question is ``{"provider": PID, "curl": URL}`` or ``{"key": KEY}``, with ``set``: the number of a
notifier's set that tells it.  The answer has a line for each, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lcc.domain.keys import pid_of, url_key
from lcc.domain.urls import URL_CHARS, normalise
from lcc.errors import UrlError
from lcc.model.notifiers import NOTIFIERS
from lcc.model.number_ranges import NumberRanges
from lcc.model.states import UNKNOWN
from lcc.numbers import INT64_MAX
from lcc.roles.access import Access
from lcc.roles.cu.query import PID_MAX, QueryError
from lcc.storage.database.tables.key_ranges import views_range
from lcc.storage.database.transactions import Txn
from lcc.storage.views.url_states import NOTHING, Found, Range, applied_sets, url_states

QUESTION = {
    "provider": "id of a provider",
    "curl": "the conceptual URL",
    "key": "instead of both: the key of a row",
    "set": "number of the notifier's set that tells it; 0: of none",
}
ANSWER = {
    "provider": "as asked, or of the key",
    "curl": "as asked; null: the key was asked for",
    "key": "of the view that it is about: of several the one that was fetched last; null: none was ever fetched",
    "state": "arriving: the set that tells it is on its way to the queue; queued: it waits to be fetched, or is "
    "being fetched; cached; deleted; unknown: none of these",
    "mimetype": "of the content that is cached, also while it is queued again; null: there is none",
    "md5": "the same",
    "change": "number of its last change; of a deletion, too",
    "fetched_time": "when the content was fetched; seconds since 1970",
    "confirmed_time": "when it was fetched, found unchanged or deleted last; seconds since 1970",
    "error": "code, text and time of the last error since then; of a queued one: why it is tried again; null: none",
}
NOTIFIER = {
    "notifier": "whose sets the lines name: role and name, as spider/main",
    "epoch": "of their numbers; with notifier",
}
_KEY_DIGITS = 40
_NAMED = frozenset({"provider", "curl", "set"})
_KEYED = frozenset({"key", "set"})


class Notifier(NamedTuple):
    """Whose sets are meant.

    :ivar name: role and name, as ``spider/main``; empty: nobody's.
    :ivar epoch: of their numbers.
    """

    name: str = ""
    epoch: str = ""


class _Asked(NamedTuple):
    """A line of the question.

    :ivar range: of the keys; None: it is not the user's, or no URL.
    :ivar fault: why it is no URL; None: it is one.
    """

    pid: int
    curl: str | None
    range: Range | None
    set_number: int
    fault: UrlError | None = None


def parse_notifier(pairs: Sequence[tuple[str, str]]) -> Notifier:
    """The notifier that the names and values of a query string name.

    :raises QueryError: they make no sense.
    """
    given = dict(pairs)
    if len(given) < len(pairs) or not given.keys() <= NOTIFIER.keys() or len(given) == 1:
        raise QueryError(["there are notifier and epoch, both or none"])
    if not given:
        return Notifier()
    if given["notifier"].partition("/")[0] not in NOTIFIERS:
        raise QueryError([f"notifier: {given['notifier'][:80]!r} is no role and name, such as spider/main"])
    return Notifier(given["notifier"], given["epoch"])


def check_states(questions: Sequence[Mapping[str, Any]]) -> None:
    """Make sure that these can be answered.

    :raises QueryError: one of them cannot.
    """
    for number, question in enumerate(questions, 1):
        fault = _fault(question)
        if fault:
            raise QueryError([f"line {number}: {fault}"])


def _fault(question: Mapping[str, Any]) -> str:
    names = question.keys()
    if not (names <= _NAMED or names <= _KEYED):
        return "there are provider and curl, or key, and set"
    number = question.get("set", 0)
    if type(number) is not int or not 0 <= number <= INT64_MAX:
        return "set is no number of a set"
    if "key" in names:
        key = question["key"]
        good = isinstance(key, str) and len(key) == _KEY_DIGITS and not key.strip("0123456789abcdef")
        return "" if good else "key is not 40 hexadecimal digits"
    pid, curl = question.get("provider"), question.get("curl")
    if type(pid) is not int or not 1 <= pid <= PID_MAX:
        return "provider is no id of a provider"
    return "" if isinstance(curl, str) else "curl is no text"


def read_states(
    txn: Txn, access: Access, notifier: Notifier, questions: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The answers, as ``ANSWER`` has them.

    :param questions: checked.
    """
    asked = [_asked(access, question) for question in questions]
    applied = applied_sets(txn, *notifier) if notifier.name else NumberRanges()
    ranges = {each.range for each in asked if each.range is not None}
    arriving = [each.range for each in asked if each.range and each.set_number and each.set_number not in applied]
    found = url_states(txn, ranges, arriving)
    return [_answer(each, found.get(each.range, NOTHING) if each.range else NOTHING) for each in asked]


def asked_provider(question: Mapping[str, Any]) -> int:
    """Whose URL is asked for.

    :param question: checked.
    """
    pid: int = pid_of(bytes.fromhex(question["key"])) if "key" in question else question["provider"]
    return pid


def _asked(access: Access, question: Mapping[str, Any]) -> _Asked:
    number = question.get("set", 0)
    if "key" in question:
        key = bytes.fromhex(question["key"])
        pid = pid_of(key)
        return _Asked(pid, None, (key, key) if access.sees(pid) else None, number)
    pid, curl = question["provider"], question["curl"]
    try:
        if len(curl) > URL_CHARS:
            raise UrlError("too-long", f"a URL of more than {URL_CHARS} characters")
        page = views_range(url_key(pid, normalise(curl), ""))
    except UrlError as error:
        return _Asked(pid, curl, None, number, error)
    return _Asked(pid, curl, page if access.sees(pid) else None, number)


def _answer(asked: _Asked, found: Found) -> dict[str, Any]:
    error = None
    if asked.fault is not None:
        error = {"code": asked.fault.code, "text": asked.fault.text, "time": 0}
    elif found.code:
        error = {"code": found.code, "text": found.error, "time": found.error_time}
    return {
        "provider": asked.pid,
        "curl": asked.curl,
        "key": found.key.hex() or None,
        "state": found.state if asked.fault is None else UNKNOWN,
        "mimetype": found.mimetype or None,
        "md5": found.md5 or None,
        "change": found.change,
        "fetched_time": found.fetched_time,
        "confirmed_time": found.confirmed_time,
        "error": error,
    }
