"""What a content user of a front end is told: each change once, whatever moves; a deletion only if there was one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lcc.roles.cu.front.tokens import parse_front_token

from .follower import Copy
from .front import FrontEnd
from .lcc_promises import LccPromises


class ToldPromises:
    """Watches what a content user is told.

    :param lccs: by the numbers of the sub-LCCs.
    :param broken: told what was, with the promise that it breaks.
    """

    def __init__(
        self, copy: Copy, lccs: Mapping[int, LccPromises], broken: Callable[[str, str], None], front: FrontEnd
    ) -> None:
        self._copy = copy
        self._lccs = lccs
        self._broken = broken
        self._front = front
        self._asked: dict[str, float] = {}
        """Key -> when the user asked for what it was told last of it."""
        self._told: dict[str, tuple[bool, tuple[int, int]]] = {}
        """Key -> what was told last: whether it is cached, and where that change was made, with which number."""
        copy.applied = self.applied
        copy.restarted = self._told.clear

    def applied(self, key: str, row: Mapping[str, Any], had: bool) -> None:
        """The user was told of a row; its token is still the one that it has asked with.

        :param had: it had been told just that.
        """
        since, self._asked[key] = self._asked.get(key, 0.0), self._copy.asked_time
        changes = {number: lcc.changes[key] for number, lcc in self._lccs.items() if key in lcc.changes}
        is_cached = row["state"] == "cached"
        if not is_cached and not any(known.deletions for known in changes.values()):
            self._broken("P18", f"{key} was told as deleted, and never was")
        if not changes:
            return
        subid, last = max(changes.items(), key=lambda item: item[1].time)
        if had and self._front.is_quiet and last.time < since:
            self._broken("P18", f"{key} was told again because it has moved: it has not changed since {since:.3f}")
        told = is_cached, (subid, last.number)
        before, self._told[key] = self._told.get(key), told
        if before != told or any(lcc.overlaps_until for lcc in self._lccs.values()):
            return  # numbers of a database that was put back are given once more
        position = parse_front_token(self._copy.token).positions.get(subid) if self._copy.token != "0" else None
        if position is not None and position.seen >= last.number:
            self._broken(
                "P18", f"{key} was told again: its change {last.number} at {subid} is known since {position}"
            )
