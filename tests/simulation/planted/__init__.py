"""Bugs, planted one at a time into a copy of the LCC: a simulator that does not find them proves nothing."""

from __future__ import annotations

from .hosts import HOSTS
from .limits import LIMITS
from .moves import MOVED
from .notifiers import NOTIFIERS
from .pushes import PUSHES
from .registrations import REGISTRATIONS
from .robots import ROBOTS
from .sets import SETS
from .spiders import SPIDERS
from .tasks import TASKS

BUGS = [*SETS, *ROBOTS, *NOTIFIERS, *TASKS, *SPIDERS, *MOVED, *HOSTS, *LIMITS, *REGISTRATIONS, *PUSHES]
