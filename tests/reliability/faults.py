"""What is done to the processes of a kill test, at random: kills, several at once, standing still beyond a lease;
nodes of a Galera cluster are parted from the others, from their clients, or from both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Protocol

import attrs

from tests.support.servers.parted_galera import PartedGalera, Parting

from .cluster import LEASE_SECONDS

SEVERAL, EVERYTHING = 0.12, 0.02
"""Shares of the faults in which several processes are killed at once, and all of them."""
DOWN_SECONDS = (0.0, 0.0, 0.5, 2.0, 8.0)
"""How long a killed process stays away."""
STILL_SECONDS = (2.0, LEASE_SECONDS + 3.0, LEASE_SECONDS + 12.0)
"""The last two: longer than a lease; the last: longer than silence is endured, too."""
STILL_MAX = 3
"""Processes that stand still at once."""
PARTED_SECONDS = (3.0, 12.0, 30.0)
"""A node is suspected after 5 seconds, and given up after 15."""
STOPPED_SHARE = 0.25
"""Of the nodes that are to be parted, those that stand still instead."""
LONG_PARTED_SECONDS = 25.0
"""After so long a node that is parted from the others knows that it is in no majority."""


class Processes(Protocol):
    """What it is done to (:class:`cluster.Cluster`)."""

    @property
    def configs(self) -> Any: ...

    @property
    def databases(self) -> Any: ...

    @property
    def still(self) -> set[str]: ...

    def role(self, name: str, /) -> str: ...

    def is_up(self, name: str, /) -> bool: ...

    def start(self, *names: str) -> None: ...

    def kill(self, name: str, /) -> None: ...

    def stand_still(self, name: str, /) -> None: ...

    def go_on(self, name: str, /) -> None: ...


@attrs.frozen
class Fault:
    """What was done.

    :ivar what: ``kill``, ``still`` or ``part``.
    :ivar until: when the process was started again, or went on, or was reached again.
    """

    what: str
    name: str
    time: float
    until: float


class Faults:
    """Does one thing after the other.

    :param still_share: of the faults, those that let a process stand still.
    :param follower: kills and starts the content user.
    :param weights: role -> how often it is chosen; 1 for those that are not named.
    :param galera: its nodes are parted; ``part_share``: of the faults, those.
    :ivar done: all that was done.
    :ivar kills: role -> kills.
    :ivar stills: role -> how often it stood still.
    :ivar parted: from whom -> how often a node was.
    :ivar given_up: times that a database server has ended by itself, and was started again.
    :ivar long_parted: what nodes that were parted from the others for long said of themselves in the end.
    """

    def __init__(
        self,
        cluster: Processes,
        random: Random,
        still_share: float,
        follower: Callable[[], None],
        weights: Mapping[str, int] = MappingProxyType({}),
        galera: PartedGalera | None = None,
        part_share: float = 0.0,
    ) -> None:
        self._weights = weights
        self._galera = galera
        self._part_share = part_share
        self._cluster = cluster
        self._random = random
        self._still_share = still_share
        self._follower = follower
        self._victims = [*cluster.configs, *cluster.databases]
        self._due: list[tuple[float, str, str, float]] = []
        self.done: list[Fault] = []
        self.kills: Counter[str] = Counter()
        self.stills: Counter[str] = Counter()
        self.parted: Counter[str] = Counter()
        self.long_parted: Counter[str] = Counter()
        self.given_up = 0

    def step(self, spared: Collection[str] = ()) -> None:
        """Do the next thing, but not to these."""
        random = self._random
        luck = random.random()
        left_alone = {*self._cluster.still, *self._parted_now(), *spared}
        up = [name for name in self._victims if self._cluster.is_up(name) and name not in left_alone]
        if not up:
            return
        if random.random() < 0.1:
            self._follower()
        if luck < EVERYTHING:
            self._kill(up)
        elif luck < EVERYTHING + SEVERAL:
            self._kill(random.sample(up, min(len(up), random.randint(2, 5))))
        elif luck >= 1 - self._still_share:
            if len(self._cluster.still) < STILL_MAX:
                self._stand_still(self._choose(up))
        elif luck >= 1 - self._still_share - self._part_share and self._may_part(up):
            node = self._random.choice(self._may_part(up))
            if self._random.random() < STOPPED_SHARE:
                self._stand_still(node)
            else:
                self._part(node)
        else:
            self._kill([self._choose(up)])

    def _parted_now(self) -> list[str]:
        parted = {} if self._galera is None else self._galera.parted
        return [name for name, node in self._cluster.databases.items() if getattr(node, "name", "") in parted]

    def _may_part(self, up: list[str]) -> list[str]:
        """One at a time."""
        if self._galera is None or self._galera.parted or self._cluster.still & self._cluster.databases.keys():
            return []
        return [name for name in up if name in self._cluster.databases]

    def _choose(self, names: list[str]) -> str:
        roles = sorted({self._cluster.role(name) for name in names})
        role = self._random.choices(roles, [self._weights.get(each, 1) for each in roles])[0]
        return self._random.choice([name for name in names if self._cluster.role(name) == role])

    def kill(self, name: str) -> None:
        """Kill this one."""
        self._kill([name])

    def _kill(self, names: list[str]) -> None:
        down = self._random.choice(DOWN_SECONDS)
        for name in names:
            self._cluster.kill(name)
            self.kills[self._cluster.role(name)] += 1
            now = time.time()
            # Together, or one after the other.
            self._due.append((now + down * self._random.uniform(0.7, 1), "kill", name, now))

    def _stand_still(self, name: str) -> None:
        self._cluster.stand_still(name)
        self.stills[self._cluster.role(name)] += 1
        now = time.time()
        seconds = self._random.choice(STILL_SECONDS) * self._random.uniform(1, 1.2)
        self._due.append((now + seconds, "still", name, now))

    def _part(self, name: str) -> None:
        assert self._galera is not None
        how = self._random.choice(list(Parting))
        self._galera.part(self._cluster.databases[name], how)
        self.parted[how.name.lower()] += 1
        now = time.time()
        self._due.append((now + self._random.choice(PARTED_SECONDS), "part", name, now))

    def tick(self) -> list[str]:
        """Start what is due to be started, let go on what is due to; gives what was started."""
        now = time.time()
        self.revive()
        started = []
        for each in [each for each in self._due if each[0] <= now]:
            self._due.remove(each)
            started += self._end(*each[1:])
        return started

    def revive(self) -> None:
        """Start database servers that have ended by themselves, as systemd does: a node of a Galera cluster gives up
        when its donor has gone."""
        for name, server in self._cluster.databases.items():
            if server.process is not None and server.process.poll() is not None:
                self._cluster.start(name)
                self.given_up += 1

    def heal(self) -> list[str]:
        """End all faults now; gives what was started."""
        due, self._due = self._due, []
        return [name for each in due for name in self._end(*each[1:])]

    def _end(self, what: str, name: str, since: float) -> list[str]:
        if what == "kill":
            self._cluster.start(name)
        elif what == "still":
            self._cluster.go_on(name)
        else:
            self._mend(name, time.time() - since)
        self.done.append(Fault(what, name, since, time.time()))
        return [name] if what == "kill" else []

    def _mend(self, name: str, seconds: float) -> None:
        assert self._galera is not None
        node = self._cluster.databases[name]
        if seconds >= LONG_PARTED_SECONDS and self._galera.parted[node.name] is not Parting.CLIENTS:
            self.long_parted[node.status("wsrep_cluster_status") or "unknown"] += 1
        self._galera.mend(node)
