"""Bandwidth as a debt: what has travelled must be paid for, with time, before the next fetch may start.

An account is one number: the earliest instant when the next fetch may start.  What a finished fetch brought moves it
on by ``bytes / rate``, from now or from where it stands already.  Nobody starts before it; so, of all that was
counted in a window of time, everything but the fetches that were under way at its last start has been paid for within
the window: bytes in the window <= rate x window + the bodies in flight.

An interval from the start of one fetch to the start of the next is the same kind of account: it moves on from the
start instead of from the bytes.
"""

from __future__ import annotations


def charge(allowed: float, now: float, wire_bytes: int, rate: int | None) -> float:
    """The account after a fetch.

    :param allowed: the account before; 0: nothing is owed.
    :param wire_bytes: what the fetch brought.
    :param rate: bytes per second; None or 0: without limit, nothing is owed.
    """
    if not rate:
        return 0.0
    if wire_bytes <= 0:
        return allowed if allowed > now else 0.0
    return max(allowed, now) + wire_bytes / rate


def after_start(allowed: float, begun: float, interval: float) -> float:
    """The account once a fetch has begun.

    :param allowed: the account before; 0: nothing is owed.
    :param begun: when it began, or later where that is not known.
    :param interval: seconds to the start of the next one; 0: none.
    """
    return max(allowed, begun + interval) if interval else allowed


def changed(allowed: float, now: float, rate: int | None, new_rate: int | None) -> float:
    """The account after the rate was changed: the bytes that are owed stay, their price is the new one.

    :param rate: the one before; None or 0: it is not known, and what is owed stays as it is.
    """
    if not new_rate or allowed <= now:
        return 0.0
    if not rate:
        return allowed
    return now + (allowed - now) * rate / new_rate
