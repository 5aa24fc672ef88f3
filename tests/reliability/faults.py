"""What is done to the processes of a kill test, at random: kills, several at once, standing still beyond a lease."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Protocol

import attrs

from .cluster import LEASE_SECONDS

SEVERAL, EVERYTHING = 0.12, 0.02
"""Shares of the faults in which several processes are killed at once, and all of them."""
DOWN_SECONDS = (0.0, 0.0, 0.5, 2.0, 8.0)
"""How long a killed process stays away."""
STILL_SECONDS = (2.0, LEASE_SECONDS + 3.0, LEASE_SECONDS + 12.0)
"""The last two: longer than a lease; the last: longer than silence is endured, too."""
STILL_MAX = 3
"""Processes that stand still at once."""


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

    :ivar what: ``kill`` or ``still``.
    :ivar until: when the process was started again, or went on.
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
    :ivar done: all that was done.
    :ivar kills: role -> kills.
    :ivar stills: role -> how often it stood still.
    """

    def __init__(
        self,
        cluster: Processes,
        random: Random,
        still_share: float,
        follower: Callable[[], None],
        weights: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._weights = weights
        self._cluster = cluster
        self._random = random
        self._still_share = still_share
        self._follower = follower
        self._victims = [*cluster.configs, *cluster.databases]
        self._due: list[tuple[float, str, str, float]] = []
        self.done: list[Fault] = []
        self.kills: Counter[str] = Counter()
        self.stills: Counter[str] = Counter()

    def step(self, spared: Collection[str] = ()) -> None:
        """Do the next thing, but not to these."""
        random = self._random
        luck = random.random()
        left_alone = {*self._cluster.still, *spared}
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
        else:
            self._kill([self._choose(up)])

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

    def tick(self) -> list[str]:
        """Start what is due to be started, let go on what is due to; gives what was started."""
        now = time.time()
        started = []
        for each in [each for each in self._due if each[0] <= now]:
            self._due.remove(each)
            started += self._end(*each[1:])
        return started

    def heal(self) -> list[str]:
        """End all faults now; gives what was started."""
        due, self._due = self._due, []
        return [name for each in due for name in self._end(*each[1:])]

    def _end(self, what: str, name: str, since: float) -> list[str]:
        if what == "kill":
            self._cluster.start(name)
        else:
            self._cluster.go_on(name)
        self.done.append(Fault(what, name, since, time.time()))
        return [name] if what == "kill" else []
