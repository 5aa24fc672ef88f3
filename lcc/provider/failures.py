"""URLs that could not be fetched: when each is submitted again.

The run after a failure was shown tells the URL again; if it fails again, the wait is as long as it has been failing,
a day at most (2 minutes, 4, 8 … for a site that is published every minute).  So a page that was not there yet comes
soon, and one that is dead for good costs its web server a request a day.  A page that changes is told at once.

In the state file it stands before the hash of what was told: ``!404,SINCE,AT:`` waits to be told again,
``~404,SINCE,AT:`` was told again.  The times are seconds since 1970.
"""

from __future__ import annotations

import re

import attrs

from lcc.errors import code as code_of
from lcc.numbers import INT64_MAX, parse_number

WAIT_MAX_SECONDS = 86_400
QUOTA = frozenset({code_of("quota-files"), code_of("quota-space")})
"""What fails for want of room waits for room, whatever has failed before."""

_form = re.compile(r"([!~])([0-9]{1,5}),([0-9]{1,19}),([0-9]{1,19}):(.*)", re.DOTALL).fullmatch


@attrs.frozen
class Failure:
    """The failures of a URL.

    :ivar code: why it could not be fetched.
    :ivar since: when the first failure was shown, of those that followed each other.
    :ivar at: when it may be told again; or was, if it has been.
    :ivar told_again: since the last failure that was shown.
    """

    code: int
    since: int
    at: int
    told_again: bool = False

    def before(self, digest: str) -> str:
        """It, and the hash of what was told, as the state file has them."""
        return f"{'~' if self.told_again else '!'}{self.code},{self.since},{self.at}:{digest}"


def failure_in(text: str) -> tuple[Failure | None, str]:
    """Parse the failures of a URL, and the hash of its attributes."""
    found = _form(text) if text[:1] in ("!", "~") else None
    if found is None:
        return None, text
    mark, code, since, at, digest = found.groups()
    try:
        number, times = parse_number(code, INT64_MAX), (parse_number(since, INT64_MAX), parse_number(at, INT64_MAX))
    except ValueError:
        return None, text
    return Failure(number, *times, mark == "~"), digest


def after_run(known: Failure | None, now: int, at_once: bool) -> tuple[Failure | None, bool]:
    """What is known, after a run of ``lcccpstate``, against a URL that has not changed, and whether it is told again.

    :param now: seconds since 1970.
    :param at_once: told again, even if it should wait.
    """
    if known is None:
        return None, False
    # Times are compared both ways: the clock may have been set back.
    if known.told_again:
        is_recent = known.at <= now <= known.at + WAIT_MAX_SECONDS
        return (known if is_recent else None), False
    if not at_once and now < known.at <= now + WAIT_MAX_SECONDS:
        return known, False
    return attrs.evolve(known, at=now, told_again=True), True


def failed(known: Failure | None, code: int, now: int) -> Failure:
    """A failure was shown.

    :param known: what was known before.
    """
    since = now
    if known is not None and (known.code in QUOTA) == (code in QUOTA):
        if not known.told_again:
            return attrs.evolve(known, code=code)  # shown once more, or tried again by the LCC's operator
        since = min(known.since, now)
    return Failure(code, since, now + min(now - since, WAIT_MAX_SECONDS))


def without_room(known: Failure | None, code: int, now: int) -> Failure:
    """It was not submitted again: no room for it yet."""
    since = now if known is None else min(known.since, now)
    return Failure(code, since, since)
