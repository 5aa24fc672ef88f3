"""Who takes part in the LCC, so that one who is missing is missed: UNSes, machines, robots.

The queue manager says who is connected.  It forgets at its restart who was, and a UNS or a robot that has gone leaves
no trace there; so the monitor remembers them, also over its own restart, until somebody says that they were taken
away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from lcc.insight.evidence import MACHINE, MANAGER, ROBOT, UNS, Disconnected
from lcc.insight.qm_state import Live

GRACE_SECONDS = 10.0
"""Everybody connects again within this time, when the queue manager was restarted."""
ROBOT_SECONDS = 86400.0
"""Robots come and go: one that has been away for this long is forgotten."""
MEMBERS_MAX = 1000


@attrs.define
class _Member:
    """When a member was seen, and whether it is missing.

    :ivar seen: when it was there last; ``missed``: since when it is known that it is not; None: it is.
    """

    seen: float
    missed: float | None = None


class Members:
    """All members that were ever seen, until they are forgotten."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Member] = {}
        self._taken_away: set[tuple[str, str]] = set()
        self._managers_down: frozenset[str] = frozenset()

    @property
    def managers_dismissed(self) -> frozenset[str]:
        """Managers that are down, and were taken away."""
        return frozenset(name for kind, name in self._taken_away if kind == MANAGER)

    def update_managers(self, down: Iterable[str]) -> None:
        """Which managers are not connected, as the scheduler says; one that is back, or forgotten, is no longer
        dismissed."""
        self._managers_down = frozenset(down)
        self._taken_away = {key for key in self._taken_away if key[0] != MANAGER or key[1] in self._managers_down}

    @property
    def machines_taken_away(self) -> frozenset[str]:
        """Machines that the queue manager may still tell of."""
        return frozenset(name for kind, name in self._taken_away if kind == MACHINE)

    def update(self, live: Live) -> None:
        """What the queue manager says; one that is not running says nothing of others."""
        if not live.alive:
            return
        state, now = live.state, float(live.state["time"])
        for member in self._known.values():  # later: the clock was set back
            member.seen = min(member.seen, now)
            member.missed = None if member.missed is None else min(member.missed, now)
        there = dict.fromkeys(_present(state))
        for key in there:
            self._known[key] = _Member(now)
        self._taken_away.difference_update(there)
        for machine in state.get("machines", ()):
            key = MACHINE, str(machine["machine"])
            if not machine["connected"] and key not in self._taken_away:
                self._known.setdefault(key, _Member(now, now))
        whole = _told_in_full(state)
        connected = {name for kind, name in there if kind == MACHINE}
        for key, member in list(self._known.items()):
            kind, name = key
            if key in there or kind not in whole:
                continue
            if kind == ROBOT and name.partition(" ")[0] not in connected:
                member.missed = None  # its machine is missed
            elif member.missed is None:
                member.missed = now
            if kind == ROBOT and now - member.seen > ROBOT_SECONDS:
                del self._known[key]
        while len(self._known) > MEMBERS_MAX:
            del self._known[min(self._known, key=lambda key: self._known[key].seen)]

    def away(self, now: float) -> tuple[Disconnected, ...]:
        """Those who are missing for longer than a moment, in the order of their names.

        :param now: seconds since 1970.
        """
        missing = (
            Disconnected(kind, name, member.seen)
            for (kind, name), member in self._known.items()
            if member.missed is not None and now - member.missed >= GRACE_SECONDS
        )
        return tuple(sorted(missing, key=lambda each: (each.kind, each.name)))

    def forget(self, kind: str, name: str) -> bool:
        """Dismiss.

        :param kind: :data:`ROBOT`: all robots that are missed of the machine ``name``.
        :returns: whether anybody was missed.
        """
        if kind == MANAGER:
            if name not in self._managers_down:
                return False
            self._taken_away.add((kind, name))
            return True
        gone = [
            key
            for key, member in self._known.items()
            if key[0] == kind
            and (key[1].partition(" ")[0] if kind == ROBOT else key[1]) == name
            and member.missed is not None
        ]
        for key in gone:
            del self._known[key]
        if kind == MACHINE:
            self._taken_away.update(gone)
        return bool(gone)

    def kept(self) -> dict[str, Iterable[Any]]:
        """All of it, for JSON."""
        return {
            "members": [[*key, member.seen, member.missed] for key, member in self._known.items()],
            "taken_away": sorted(map(list, self._taken_away)),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """What :meth:`kept` gave in another run.

        :raises ValueError, TypeError, KeyError, AttributeError: it did not.
        """
        for kind, name, seen, missed in kept.get("members", []):
            self._known[str(kind), str(name)] = _Member(float(seen), None if missed is None else float(missed))
        self._taken_away.update((str(kind), str(name)) for kind, name in kept.get("taken_away", []))


def _present(state: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in state.get("unses", ()):
        yield UNS, str(name)
    for machine in state.get("machines", ()):
        if not machine["connected"]:
            continue
        number = str(machine["machine"])
        yield MACHINE, number
        counts: dict[str, int] = {}
        for robot in machine.get("robots", ()):
            name = str(robot["name"])
            counts[name] = counts.get(name, 0) + 1
            # Two may have one name: the second one is missed when one is left.
            yield ROBOT, f"{number} {name}" + (f" ({counts[name]})" if counts[name] > 1 else "")


def _told_in_full(state: Mapping[str, Any]) -> frozenset[str]:
    """Kinds of which all are listed; of the others nobody can be missed."""
    machines = state.get("machines", ())
    connected = sum(1 for machine in machines if machine["connected"])
    full = set()
    if state.get("unses_connected", len(state.get("unses", ()))) <= len(state.get("unses", ())):
        full.add(UNS)
    if state.get("machines_connected", connected) <= connected:
        full.add(MACHINE)
        if all(machine.get("robots_count", 0) <= len(machine.get("robots", ())) for machine in machines):
            full.add(ROBOT)
    return frozenset(full)
