"""What a job's worker is started with: its environment, its limits, and by which launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from lcc.domain.tasks.kinds import KindSettings
from lcc.model.polled import CONTENT_FILE
from lcc.protocols.jobs import RunJob, read_args
from lcc.roles.manager.job import Process, RunningJob
from lcc.roles.manager.launching import Launcher, on_boot_clock
from lcc.workers.executables import all_executables
from lcc.workers.launch import Launch, Limits

MARK = "LCC_JOB_MARK"
"""Name of the environment variable by which a job's processes are found if their shepherd was killed."""


@attrs.frozen
class Place:
    """Where, and as whom, workers run.

    :ivar folders: of their executables.
    :ivar owners: ids of the users, besides root, to whom these may belong.
    :ivar user, group: ids that workers get; None: those of the manager.
    :ivar scratch: where jobs get their folders.
    :ivar path: their PATH.
    :ivar environment: further variables.
    :ivar token: names this manager's home; never that of another one.
    """

    folders: tuple[str, ...]
    owners: tuple[int, ...]
    user: int | None
    group: int | None
    scratch: Path
    path: str
    environment: Mapping[str, str]
    token: str


class Workers:
    """Starts workers; :meth:`open` it first.

    :param lock: gives the descriptor of the lock that launchers and shepherds inherit.
    :param builtin: kind -> function of workers of our own.
    """

    def __init__(
        self,
        reactor: Any,
        lock: Callable[[], int],
        in_thread: Callable[..., Deferred[Any]],
        builtin: Mapping[str, str],
    ) -> None:
        self._place: Place = None  # type: ignore[assignment]  # set in open, with which everything begins
        self._clock: IReactorTime = reactor
        self._in_thread = in_thread
        self._builtin = builtin
        modules = sorted({call.partition(":")[0] for call in builtin.values()})
        self._plain = Launcher(reactor, lock, (), in_thread)
        self._template = Launcher(reactor, lock, tuple(modules), in_thread)

    def open(self, place: Place) -> None:
        """Start them there."""
        self._place = place

    @property
    def scratch(self) -> Path:
        """Where jobs have their files."""
        return self._place.scratch

    def start(
        self, order: RunJob, limits: KindSettings, job: RunningJob, lease_until: float, content: Path | None
    ) -> Process:
        """Start a job's worker.

        :param content: the file that it is given; None: none.
        :param lease_until: on the reactor's clock; all its processes have ended by then, unless more is granted.
        :raises OSError: that is not possible now.
        """
        place = self._place
        call = "" if order.command else self._builtin.get(order.kind, "")
        mark = f"{MARK}={place.token}/{order.id}-{order.attempt}/"
        launch = Launch(
            f"{order.id}-{order.attempt}",
            order.command,
            read_args(order.args),
            self._environment(order, mark, content),
            place.folders,
            place.owners,
            call,
            place.user,
            place.group,
            str(place.scratch),
            on_boot_clock(self._clock, lease_until),
            Limits(*limits[1:]),
        )
        return (self._template if call else self._plain).start(launch, mark, job)

    def commands(self) -> Deferred[tuple[list[str], dict[str, str]]]:
        """The executables that jobs may run, sorted; and those that they may not, with the reason."""
        return self._in_thread(all_executables, self._place.folders, self._place.owners)

    def stop(self) -> None:
        """Let the launchers end."""
        self._plain.stop()
        self._template.stop()

    def _environment(self, order: RunJob, mark: str, content: Path | None) -> dict[str, str]:
        name, _, value = mark.partition("=")
        job, task = str(order.id), str(order.task)
        return {
            "PATH": self._place.path,
            "LANG": "C.UTF-8",
            **self._place.environment,
            "SSSCRAPE_JOB_ID": job,
            "SSSCRAPE_TASK_ID": task,
            "LCC_JOB_ID": job,
            "LCC_TASK_ID": task,
            name: value,
            **({} if content is None else {CONTENT_FILE: str(content)}),
        }


def usual_path() -> str:
    """The PATH of workers: first where ``lcc-job`` and our Python are."""
    return os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"])  # noqa: PTH120
