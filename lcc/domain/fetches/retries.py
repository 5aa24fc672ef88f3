"""When a URL that failed in passing is tried again: growing delays, spread by the URL's key.

The spread needs no random numbers: a key is a hash.  So the same failure gets the same delay, however often its
transaction has to be done again.
"""

from __future__ import annotations

SPREAD = 0.25
"""A delay is shortened by up to this part of it, so that what failed together does not all come back together."""
_GOLDEN = 0.6180339887498949


def delay_seconds(attempts: int, key: bytes, initial: float, maximum: float) -> float:
    """How long a URL waits after so many failures (1: the first): twice as long each time.

    :param key: of the URL; its bytes behind the provider's id are those of a hash.
    :param initial, maximum: the first delay and the longest one, in seconds.
    """
    longest = min(initial * 2.0 ** min(max(0, attempts - 1), 60), max(initial, maximum))
    part = (int.from_bytes(key[4:8], "big") / 2**32 + attempts * _GOLDEN) % 1.0
    return longest * (1.0 - SPREAD * part)


def doubled_seconds(first: int, times: int, longest: int) -> int:
    """How long something else than a URL waits that fails again and again: twice as long each time, without a spread.

    :param first, longest: the first delay and the longest one, in seconds.
    :param times: how often it was doubled.
    """
    return min(first << min(max(0, times), 32), longest)
