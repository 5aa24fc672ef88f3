"""What the queue manager says of itself: the text that it saves every few seconds, and whether it is alive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from lcc.domain.wording import duration, utc
from lcc.errors import entry_for
from lcc.model import Delay

MISSED = 4
"""A queue manager whose state is older than this many intervals is taken for dead."""


@frozen
class Live:
    """
    :ivar state: what it saved last (:mod:`lcc.roles.qm.maintenance.state`); empty: nothing, ever.
    :ivar age_seconds: of that; less than 0: its wall clock is ahead, or was set back since.
    """

    state: dict[str, Any]
    age_seconds: int

    @property
    def stopped(self) -> bool:
        """It was stopped in order."""
        return bool(self.state.get("stopped"))

    @property
    def alive(self) -> bool:
        """It saves its state, as a running queue manager does, and has not said that it stops."""
        fresh = bool(self.state) and abs(self.age_seconds) <= MISSED * self.state["interval"]
        return fresh and not self.stopped

    @property
    def trouble(self) -> str:
        """Why nothing is fetched at present, for nobody; empty: something may be."""
        if not self.state:
            return "no queue manager has run yet"
        if self.stopped:
            return f"the queue manager was stopped {_ago(self)}"
        if not self.alive:
            return f"the queue manager is not running or cannot write to the database (last seen {_ago(self)})"
        if self.state.get("paused_since") is not None:
            return "the queue manager is paused by an operator"
        if not self.state["capacity"]:
            return self._no_capacity()
        return ""

    def _no_capacity(self) -> str:
        ready = [machine for machine in self.state.get("machines", ()) if machine["ready"]]
        refused = [machine for machine in ready if machine.get("refused") or machine.get("robots_refused")]
        if refused and len(refused) == len(ready):
            return "; ".join(self.refused)
        full = [machine for machine in ready if machine.get("trouble")]
        if not full or len(full) < len(ready):
            return "the robots are paused by an operator" if self.pauses else "no robot is connected"
        return f"no machine has room for content; machine {full[0]['machine']}: {full[0]['trouble']}"

    @property
    def pauses(self) -> list[str]:
        """What an operator has paused at the machines, by machine."""
        machines = self.state.get("machines", ()) if self.alive else ()
        return [f"machine {each['machine']}: {each['paused']}" for each in machines if each.get("paused")]

    @property
    def refused(self) -> list[str]:
        """Machines and robots that get no orders until somebody mends what is told here."""
        machines = self.state.get("machines", ()) if self.alive else ()
        return [
            f"machine {each['machine']} ({each.get('name', '')}): {why}"
            for each in machines
            for why in (each.get("refused"), each.get("robots_refused"))
            if why and each["connected"]
        ]

    @property
    def awaited(self) -> list[dict[str, int]]:
        """The machines that may have orders of an earlier queue manager, and until when."""
        return list(self.state.get("awaited", ())) if self.alive else []

    def withholds(self, pid: int, earliest_psetid: int | None) -> bool:
        """Whether this provider waits for those machines.

        :param earliest_psetid: of its sets that may be fetched; None: there is none.
        """
        if not self.awaited or earliest_psetid is None:
            return False
        withheld = self.state["withheld"]
        if pid in withheld["pids"]:
            return True
        # Not all of them may be listed.  New work of others comes in later sets.
        unlisted = withheld["providers"] > len(withheld["pids"])
        return bool(unlisted and earliest_psetid <= withheld["sets_upto"])

    @property
    def host_turns(self) -> list[dict[str, Any]]:
        """Hosts where providers wait for another one (``[qm] serial_by_host``): who has the turn, the first of those
        that wait, and how many do."""
        return list(self.state.get("host_turns", ())) if self.alive else []

    def waits_for(self, pid: int) -> list[int]:
        """The providers of the same host for whose turn to end this one waits; empty: it waits for none."""
        return next((list(host["turns"]) for host in self.host_turns if pid in host["waiting"]), [])

    @property
    def takes_nothing(self) -> str:
        """Why no sets are taken in at present, so that UNSes keep what they are told; empty: they are."""
        if not self.alive:
            return self.trouble
        overload = self.state.get("overload", "")
        return f"the queue manager is overloaded: {overload}" if overload else ""

    def is_fetching_from(self, pid: int) -> bool:
        """An order is out for this provider (and is among those that are listed)."""
        return self.alive and any(order["pid"] == pid for order in self.state["orders"])

    def fetching(self, key: bytes) -> dict[str, Any] | None:
        """The order that is out for this URL; None: there is none, or it is not among those that are listed."""
        if not self.alive:
            return None
        name = key.hex()
        return next((order for order in self.state["orders"] if order["key"] == name), None)


def machine_busy(machine: Mapping[str, Any]) -> int:
    """Places of a machine's robots that are in use; orders that wait at its BOT-M use none.

    :param machine: as it is in the state.
    """
    if not machine["connected"]:
        return 0
    robots = machine.get("robots", ())
    told = len(robots) >= machine.get("robots_count", 0)
    busy: int = sum(robot["busy"] for robot in robots) if told else machine["orders"]
    capacity: int = machine["capacity"]
    return min(busy, capacity)


def busy_places(state: Mapping[str, Any]) -> int:
    """The same of all machines."""
    return sum(machine_busy(machine) for machine in state.get("machines", ()))


def _ago(live: Live) -> str:
    if live.age_seconds < 0:
        return f"{duration(-live.age_seconds)} in the future (was a clock changed?)"
    return duration(live.age_seconds) + " ago"


def read_live(text: str, now: int) -> Live:
    """The state that this text says; a text that makes no sense says nothing.

    :param now: seconds since 1970.
    """
    try:
        state = json.loads(text) if text else {}
        age = now - int(state["time"]) if state else 0
        float(state.get("interval", 0))
    except (ValueError, TypeError, KeyError, AttributeError):
        return Live({}, 0)
    return Live(state, age)


def delay_text(delay: Delay, now: float) -> str:
    """A delay in words: what is waited for, since when, until when."""
    who = "" if delay.pid else "the whole LCC: "
    left = f"in {duration(delay.until_time - now)}"
    if delay.reason == "hours":
        return f"{who}waiting for its hours, opens {_clock(delay.until_time, now)} ({left})"
    if not delay.code:
        return f"{who}waiting for its {delay.reason}, next fetch {left}"
    cause = f"{delay.code} {entry_for(delay.code).text}"
    if delay.reason == "retry-after":
        return f"{who}told to wait by its site ({cause}), next try {left}"
    since = f" since {_clock(delay.since_time, now)}" if delay.since_time else ""
    return f"{who}down{since} ({cause}, {delay.failures} in a row), next try {left}"


def _clock(time: float, now: float) -> str:
    """A time of today, or of another day; in UTC."""
    text = utc(time)[:16]
    return text[11:] if text[:10] == utc(now)[:10] else text
