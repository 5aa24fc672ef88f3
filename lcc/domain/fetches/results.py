"""How fetches end: what an error says of its site; and counts, by a name for each way, of which there are few,
whatever web servers answer."""

from __future__ import annotations

from collections import Counter
from functools import cache

from lcc.errors import ERRORS, Remedy, entry_for

_REMEDIES: dict[int, Remedy] = {0: Remedy.NONE}


def holds_provider(code: int) -> bool:
    """True for an error that is the site's: nothing else of the provider is worth trying now."""
    remedy = _REMEDIES.get(code)
    if remedy is None:
        remedy = entry_for(code).remedy
        if len(_REMEDIES) < 1000:
            _REMEDIES[code] = remedy
    return remedy is Remedy.HOLD_PROVIDER


STORED, UNCHANGED, OTHER = "stored", "unchanged", "other"


@cache
def _error_name(code: int) -> str:
    return ERRORS[code].name if code in ERRORS else f"http-{code // 100}xx"


def result_name(code: int, unchanged: bool) -> str:
    """``stored``, ``unchanged``, ``http-4xx`` and the like, or the error's name.

    :param code: as in the error table; 0: no error.
    """
    if not code:
        return UNCHANGED if unchanged else STORED
    # What a peer makes up must not be remembered.
    return _error_name(code) if code in ERRORS or 100 <= code <= 599 else OTHER


class ResultCounts:
    """Of all fetches that have ended since the start.

    :ivar by_name: how many there were of each way.
    :ivar wire_bytes: that travelled, of those that failed, too.
    :ivar content_bytes: of what was stored.
    """

    def __init__(self) -> None:
        self.by_name: Counter[str] = Counter({STORED: 0, UNCHANGED: 0})
        self.wire_bytes = 0
        self.content_bytes = 0

    def ended(self, code: int, unchanged: bool, wire_bytes: int, content_bytes: int) -> str:
        """One has ended; gives the name for that."""
        name = result_name(code, unchanged)
        self.by_name[name] += 1
        self.wire_bytes += wire_bytes
        self.content_bytes += content_bytes
        return name
