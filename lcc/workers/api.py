"""The Python API of workers; ``lcc.worker`` is its public name (doc/workers.md).

It imports nothing but the standard library, needs no Twisted, and may be used from several threads and processes of a
job at once.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lcc.numbers import INT64_MAX, parse_number
from lcc.workers.connection import Connection, JobError

DONE, TEMPORARY, PERMANENT = 0, 1, 2
"""Exit codes."""


class TemporaryError(Exception):
    """It did not work this time: the job is tried again.

    :param after_seconds: when; None: the scheduler decides.
    """

    def __init__(self, text: str = "", after_seconds: int | None = None) -> None:
        super().__init__(text)
        self.after_seconds = after_seconds


class PermanentError(Exception):
    """It will never work: the job is not tried again."""


class JobInfo(NamedTuple):
    """What a job is.

    :ivar id: of the job.
    :ivar task: whose turn it is; 0: of none.
    :ivar kind: of task and job.
    :ivar attempt: 1 the first time, then more.
    :ivar command: that was started.
    :ivar args: its arguments.
    :ivar resource: that the job has for itself; empty: none.
    :ivar data: what the task keeps: :meth:`Job.store_data` of its last job.
    :ivar input: what a built-in kind hands to its worker; empty: nothing.
    :ivar seconds: its time limit; 0: none.
    :ivar manager: name of the manager that has started it.
    """

    id: int
    task: int
    kind: str
    attempt: int
    command: str
    args: tuple[str, ...]
    resource: str
    data: str
    input: dict[str, Any]
    seconds: int
    manager: str


class Job:
    """The job that this process works for.

    What :meth:`add`, :meth:`notify`, :meth:`store`, :meth:`store_data` and :meth:`set_period` say are *effects*: they
    take effect all together, once the worker exits with 0, or at :meth:`commit`; if it fails they never happened.

    :param connection: None: descriptor 3.
    :raises JobError: from each method: the manager refuses it (the exception says why), or there is no manager.
    """

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection or Connection()

    def show(self) -> JobInfo:
        """What the job is."""
        said = self._connection.ask("show", {})
        return JobInfo(
            parse_number(said["id"], INT64_MAX),
            parse_number(said["task"], INT64_MAX),
            said["kind"],
            parse_number(said["attempt"], INT64_MAX),
            said.get("command", ""),
            tuple(json.loads(said.get("args") or "[]")),
            said.get("resource", ""),
            said.get("data", ""),
            json.loads(said.get("input") or "{}"),
            parse_number(said.get("seconds", "0"), INT64_MAX),
            said.get("manager", ""),
        )

    def status(self, text: str) -> None:
        """Say how far it is, for people."""
        self._ask("status", text=text)

    def log(self, text: str, level: str = "info") -> None:
        """Write a row into the job's log, which is kept however the job ends.

        :param level: ``debug``, ``info``, ``warn`` or ``error``.
        """
        self._ask("log", text=text, level=level)

    def set_period(self, seconds: int) -> None:
        """Effect: the task's period from now on."""
        self._ask("period", seconds=seconds)

    def retry_after(self, seconds: int) -> None:
        """Wish to be tried again after this time, if the job ends with a temporary error."""
        self._ask("retry", seconds=seconds)

    def add(
        self,
        command: str,
        *args: str,
        key: str = "",
        after_seconds: int = 0,
        at_time: int | None = None,
        kind: str = "command",
        resource: str | None = None,
        on: Sequence[str] = (),
        data: str = "",
    ) -> None:
        """Effect: run a job later.

        :param command: an executable of the managers' worker folders; empty where ``kind`` is a built-in one.
        :param key: names it: added once, however often jobs of this task add it; empty: all of it is its key.
        :param after_seconds: from the moment when this takes effect.
        :param at_time: when, in seconds since 1970, in place of that.
        :param resource: that it needs for itself; None: that of this job; empty: none.
        :param on: where it may run: ``allow:HOST``, ``deny:HOST``.
        :param data: for the job, as ``JobInfo.data``.
        """
        self._ask(
            "add",
            command=command,
            args=json.dumps(args) if args else None,
            kind=kind,
            key=key or None,
            after=after_seconds,
            at=at_time,
            resource=resource,
            on=json.dumps(list(on)) if on else None,
            data=data or None,
        )

    def notify(self, url: str, source: str = "link", op: str = "update", mimetype: str = "") -> None:
        """Effect: notify the LCC of a URL.

        :param source: ``link``: a page has this link; ``feed``: an item of a feed; ``listed``: the site itself has
            listed it.
        :param op: ``update``, ``delete``, ``recheck`` or ``retract``.
        :param mimetype: empty: not known.
        """
        self._ask("notify", url=url, source=source, op=op, mimetype=mimetype or None)

    def store(self, item: Mapping[str, Any]) -> None:
        """Effect: store an item (doc/workers.md has its fields)."""
        self._ask("store", item=json.dumps(item, ensure_ascii=False, separators=(",", ":")))

    def store_data(self, data: str) -> None:
        """Effect: what the task keeps for its next job, in place of ``JobInfo.data``."""
        self._ask("store", data=data)

    def commit(self) -> None:
        """Have all effects so far take effect now.  Returns once they have."""
        self._ask("commit")

    def _ask(self, tag: str, **attributes: str | int | None) -> None:
        said = {name: str(value) for name, value in attributes.items() if value is not None}
        self._connection.ask(tag, said)


def run(main: Callable[[Job], object]) -> None:
    """Run a worker: call a function with the job, and exit as it ends.

    It returns: exit code 0.  It raises :class:`PermanentError`: 2.  :class:`TemporaryError`, or anything else: 1,
    with the traceback in the job's output if nobody foresaw it.

    :raises SystemExit: always.
    """
    code = DONE
    try:
        job = Job()
        main(job)
    except TemporaryError as error:
        code = TEMPORARY
        print(error or "temporary error", file=sys.stderr)
        if error.after_seconds is not None:
            job.retry_after(error.after_seconds)
    except PermanentError as error:
        code = PERMANENT
        print(error or "permanent error", file=sys.stderr)
    except JobError as error:
        code = PERMANENT if error.code in ("invalid", "too-much", "not-yours") else TEMPORARY
        print(f"{error.code}: {error}", file=sys.stderr)
    except Exception:
        code = TEMPORARY
        traceback.print_exc()
    raise SystemExit(code)


__all__ = ["DONE", "PERMANENT", "TEMPORARY", "Job", "JobError", "JobInfo", "PermanentError", "TemporaryError", "run"]
