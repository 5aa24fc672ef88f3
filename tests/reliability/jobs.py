"""Kills scheduler, managers, launchers, shepherds and workers at random while jobs run (``make kill-jobs``).

``python -m tests.reliability.jobs --kills 1000 [--seed N] [--backend mariadb]``

On MariaDB the server is killed as well.  Each run is added to a file, so the test can be stopped and continued.

The oracle is outside: workers append to a journal, hold a lock for each task (and give it to a child that would
outlive them), and count in what their task keeps.  In the end:

* no worker has found another one, or a left child, of its task;
* each job that the scheduler has given out is over: completed, or failed because something was killed;
* each task has counted each job once: those, and only those, that have added their one follow-up;
* nothing runs any longer, and nothing has logged a traceback.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import attrs
import pymysql

from lcc.testing.mariadb import PrivateMariaDb
from lcc.workers.linux import marked, parents
from tests.support.processes.starting import PLAIN_SHARE, Process, Start, mixed
from tests.support.waiting import wait_for

from .commands import parser
from .commands import tell as say
from .oracle import Violation
from .repeating import repeat
from .results import Results
from .run import Broken

BIN = Path(sys.executable).parent
BACKENDS = ("sqlite", "mariadb")
MANAGERS = ("anna", "bert")
DATABASE = "mariadbd"
KINDS = ("scheduler", "manager", "launcher", "shepherd", "worker", "all", DATABASE)
WEIGHTS = (2, 3, 3, 5, 6, 1, 2)
PERIODS = (1, 1, 1, 5, 9)
"""Of the tasks, in seconds; the longer ones leave time to try again."""
TASKS = len(PERIODS)
WORK = """#!{python}
import fcntl, json, os, random, subprocess, sys, time

from lcc.worker import Job, run

folder = sys.argv[1]
journal = os.open(folder + "/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def main(job):
    info = job.show()

    def say(word):
        os.write(journal, f"{{word}} {{info.task}} {{info.id}} {{info.attempt}} {{time.time():.3f}}\\n".encode())

    lock = os.open(f"{{folder}}/lock-{{info.task}}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("overlap")
    say("begin")
    subprocess.Popen(["setsid", "sleep", "600"], pass_fds=(lock,))
    kept = json.loads(info.data or '{{"count": 0, "job": 0}}')
    if kept["job"] != info.id:  # else an earlier attempt of this job has committed it
        job.store_data(json.dumps({{"count": kept["count"] + 1, "job": info.id}}))
        job.add("follow.sh", key=f"follow {{info.id}}", kind="follow", resource="")
        if random.random() < 0.5:
            job.commit()
            say("committed")
    time.sleep(random.random() * 0.6)
    say("end")


run(main)
"""
FOLLOW = "#!/bin/sh\nexit 0\n"


@attrs.define
class Outcome:
    """
    :ivar kills: by whom they hit.
    :ivar jobs: by their state.
    :ivar attempts: that began.
    """

    kills: Counter[str]
    jobs: Counter[str]
    attempts: int

    def report(self, seed: int, backend: str, began: float, violations: int) -> dict[str, Any]:
        """For the file of results."""
        return {
            "seed": seed,
            "backend": backend,
            "kills": dict(sorted(self.kills.items())),
            "jobs": dict(sorted(self.jobs.items())),
            "attempts": self.attempts,
            "violations": violations,
            "seconds": round(time.monotonic() - began, 1),
        }


class Jobs:
    """A scheduler, managers, and tasks.

    :param folder: of all their files.
    :param how: roles are started.
    :param server: has the tables; None: they are on SQLite.
    """

    def __init__(self, folder: Path, seed: int, how: Start, server: PrivateMariaDb | None = None) -> None:
        self._how = how
        self.folder = folder
        self.server = server
        self.random = random.Random(seed)
        self.kills: Counter[str] = Counter()
        self.processes: dict[str, Process] = {}
        self.down: dict[str, float] = {}
        self.workers = folder / "workers"
        self.workers.mkdir()
        for name, text in (("work.py", WORK.format(python=sys.executable)), ("follow.sh", FOLLOW)):
            (self.workers / name).write_text(text)
            (self.workers / name).chmod(0o755)
        database = "" if server is None else f"[database]\nurl = '{server.new_database()}'\n"
        settings = "[scheduler]\nlease = 10\nretries = 100\nretry_initial = 1\nconnect = ''\n"
        self._configure("scheduler", database + settings)
        for name in MANAGERS:
            connect = f"unix:{folder}/scheduler/home/scheduler.sock"
            settings = f"workers = ['{self.workers}']\nuser = 'root'\nconnect = '{connect}'\nstop_seconds = 2\n"
            self._configure(name, f"[manager]\nname = '{name}'\n{settings}")
        self.admin("init")

    def _configure(self, name: str, text: str) -> None:
        (self.folder / name).mkdir()
        (self.folder / name / "lcc.toml").write_text(f'home = "home"\n{text}')

    def admin(self, *arguments: str) -> str:
        """Run lcc-admin; gives its output."""
        done = subprocess.run(
            [BIN / "lcc-admin", *arguments],
            cwd=self.folder / "scheduler",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str) -> None:
        """Start a role, or the database server."""
        if name == DATABASE:
            assert self.server is not None
            self.server.launch()
            return
        plugin = "lcc-scheduler" if name == "scheduler" else "lcc-manager"
        command = [str(BIN / "twistd"), "-n", "--pidfile=", plugin, "--config", "lcc.toml"]
        home = self.folder / name
        self.processes[name] = self._how(command, home, home / "log", os.environ)

    # Faults.

    def fault(self) -> None:
        """Kill somebody, while a worker runs; else only start those that are down."""
        now = time.monotonic()
        for name in [name for name, when in self.down.items() if when <= now]:
            del self.down[name]
            self.start(name)
        if not self._of_kind("worker"):
            return
        kinds, weights = KINDS[: None if self.server else -1], WEIGHTS[: None if self.server else -1]
        kind = self.random.choices(kinds, weights)[0]
        if kind == DATABASE:
            self._kill_database()
        elif kind in ("scheduler", "manager"):
            name = "scheduler" if kind == "scheduler" else self.random.choice(MANAGERS)
            self._kill_role(name, kind)
        elif kind == "all":
            for name in self.processes.keys() - self.down.keys():
                self._kill_role(name, kind)
        else:
            found = self._of_kind(kind)
            if found:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(found), signal.SIGKILL)
                    self.kills[kind] += 1

    def _kill_database(self) -> None:
        if self.server is not None and DATABASE not in self.down:
            self.server.kill()
            self.kills[DATABASE] += 1
            self.down[DATABASE] = time.monotonic() + self.random.choice((0.0, 0.3, 1.0))

    def _kill_role(self, name: str, kind: str) -> None:
        if name not in self.down:
            process = self.processes[name]
            process.kill()
            process.wait()
            self.kills[kind] += 1
            self.down[name] = time.monotonic() + self.random.choice((0.0, 0.3, 1.0))

    def _of_kind(self, kind: str) -> list[int]:
        launchers, shepherds, workers = [], [], []
        roles = {process.pid for process in self.processes.values()}
        above = parents()
        for pid, parent in above.items():
            if parent in roles:
                launchers.append(pid)
            elif above.get(parent) in roles:
                shepherds.append(pid)
            elif above.get(above.get(parent, 0)) in roles:
                workers.append(pid)
        return {"launcher": launchers, "shepherd": shepherds, "worker": workers}[kind]

    # The end.

    def rows(self, query: str) -> list[Any]:
        """From the tables of tasks."""
        if self.server is not None:
            opened = pymysql.connect(unix_socket=str(self.server.socket), user="root", database="lcc1")
            with closing(opened) as connection, connection.cursor() as cursor:
                cursor.execute(query)
                return list(cursor.fetchall())
        path = self.folder / "scheduler" / "home" / "tasks.sqlite"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as database:
            return database.execute(query).fetchall()

    def settle(self) -> None:
        """Kill nobody any longer, and wait until all jobs are over."""
        for name in list(self.down):
            del self.down[name]
            self.start(name)
        if self.server is not None:
            wait_for("the database server answers", self.server.serves)
        before = dict(
            self.rows("SELECT task, COUNT(*) FROM jobs WHERE state = 'completed' AND task > 0 GROUP BY task")
        )

        def all_go_on() -> bool:
            now = self.rows("SELECT task, COUNT(*) FROM jobs WHERE state = 'completed' AND task > 0 GROUP BY task")
            return len(now) == TASKS and all(count > before.get(task, 0) for task, count in now)

        wait_for("each task completes another job", all_go_on, 240)
        for task in range(1, TASKS + 1):
            self.admin("task", "suspend", str(task))
        wait_for("all jobs are over", lambda: not self.rows("SELECT 1 FROM jobs WHERE ended_time IS NULL"), 240)

    def judge(self) -> Outcome:
        """What has become of all jobs.

        :raises AssertionError: something was promised that is not so.
        """
        journal = [line.split() for line in (self.folder / "journal").read_text().splitlines()]
        overlaps = [line for line in journal if line[0] == "overlap"]
        assert not overlaps, f"two workers of a task at once: {overlaps[:5]}"
        states = Counter(dict(self.rows("SELECT state, COUNT(*) FROM jobs WHERE task > 0 GROUP BY state")))
        assert states.keys() <= {"completed", "permanent-error", "temporary-error", "lost"}, states
        # What could be tried again only after the next job of its task is due is not.
        assert states["lost"] + states["temporary-error"] <= TASKS * sum(self.kills.values())
        assert states["permanent-error"] <= self.kills["worker"], "more jobs have failed than workers were killed"
        counted = Counter(
            task
            for (task,) in self.rows(
                "SELECT p.task FROM jobs f JOIN jobs p ON f.parent = p.id WHERE f.command = 'follow.sh'"
            )
        )
        completed = {job for (job,) in self.rows("SELECT id FROM jobs WHERE task > 0 AND state = 'completed'")}
        adders = [job for (job,) in self.rows("SELECT parent FROM jobs WHERE command = 'follow.sh'")]
        assert len(adders) == len(set(adders)), "a follow-up was added twice"
        assert completed <= set(adders), f"effects were lost: {sorted(completed - set(adders))[:5]}"
        ended = {int(line[2]) for line in journal if line[0] == "end"}
        assert completed <= ended, "a job is completed that has never come to its end"
        for task, data in self.rows("SELECT id, data FROM tasks"):
            assert json.loads(data)["count"] == counted[task], f"task {task} has counted {data}, not {counted[task]}"
        follow_ups = self.rows("SELECT state, COUNT(*) FROM jobs WHERE task = 0 GROUP BY state")
        assert {state for state, _ in follow_ups} <= {"completed", "permanent-error"}, follow_ups
        return Outcome(self.kills, states, sum(line[0] == "begin" for line in journal))

    def stop(self) -> None:
        """End all processes, in order.

        :raises AssertionError: one complains, or leaves something behind.
        """
        for name, process in reversed(self.processes.items()):
            process.terminate()
            process.wait(60)
            log = (self.folder / name / "log").read_text()
            assert "Traceback" not in log and "Unhandled" not in log, f"{name}: {log[-3000:]}"
        wait_for("nothing of it runs", lambda: not any(self._left()))

    def _left(self) -> Iterator[int]:
        for name in MANAGERS:
            token = (self.folder / name / "home" / "manager" / "token").read_bytes().strip()
            yield from marked(b"LCC_JOB_MARK=" + token)

    def kill_all(self) -> None:
        """After a failure: leave nothing behind."""
        for process in self.processes.values():
            process.kill()
            process.wait()


def _kill(jobs: Jobs, kills: int, pace_seconds: float, tell: Any) -> Outcome:
    folder = jobs.folder
    try:
        for name in ("scheduler", *MANAGERS):
            jobs.start(name)
        for seconds in PERIODS:
            jobs.admin("task", "add", "--every", str(seconds), "--", "work.py", str(folder))
        wait_for("a worker runs", lambda: (folder / "journal").exists())
        told = 0
        while sum(jobs.kills.values()) < kills:
            time.sleep(pace_seconds * 2 * jobs.random.random())
            jobs.fault()
            done = sum(jobs.kills.values())
            if done // 50 > told:
                told = done // 50
                tell(f"{done} kills: {dict(jobs.kills)}")
        jobs.settle()
        outcome = jobs.judge()
        jobs.stop()
    except BaseException:
        jobs.kill_all()
        tell(f"files are in {folder}")
        raise
    return outcome


def run(
    kills: int,
    seed: int,
    pace_seconds: float,
    tell: Any,
    backend: str = "sqlite",
    plain_share: float = PLAIN_SHARE,
) -> dict[str, Any]:
    """One run, in a folder of its own; gives what is to be reported of it.

    :param backend: ``sqlite`` or ``mariadb``.
    :param pace_seconds: between two kills, on average.
    :param plain_share: of the starts, those that are not forked (:mod:`tests.support.processes.starting`).
    :raises Broken: promises were broken; the folder is kept.
    """
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="lcc-kill-jobs-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        server = stack.enter_context(PrivateMariaDb(durable=True)) if backend == "mariadb" else None
        jobs = Jobs(folder, seed, stack.enter_context(mixed(seed, plain_share)), server)
        try:
            outcome = _kill(jobs, kills, pace_seconds, tell)
        except AssertionError as error:
            broken = Broken([Violation("P13 to P15", str(error))], folder)
            broken.report = Outcome(jobs.kills, Counter(), 0).report(seed, backend, began, 1)
            raise broken from error
        except KeyboardInterrupt:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    shutil.rmtree(folder)
    return outcome.report(seed, backend, began, 0)


def table(results: Results) -> str:
    """For people."""
    jobs: Counter[str] = Counter()
    for each in results.runs:
        jobs.update(each["jobs"])
    return (
        f"{len(results.runs)} runs, {results.kills()} kills {dict(results.killed())},"
        f" {jobs.total()} jobs {dict(jobs)}: {results.violations()} violations"
    )


def main() -> int:
    """The exit code: 1 if a promise was broken, in whichever run."""
    settings = parser("kill-jobs", __doc__, "in all", "kills of one run", BACKENDS)
    settings.set_defaults(kills=100, each=100)
    settings.add_argument("--pace", type=float, default=0.4, help="seconds between two kills, on average")
    options = settings.parse_args()

    def one(results: Results, seed: int, backend: str) -> dict[str, Any]:
        left = options.each if options.seed is not None else options.kills - results.kills()
        return run(min(options.each, left), seed, options.pace, say, backend, options.plain_share)

    return repeat(options, BACKENDS, one, table=table)


if __name__ == "__main__":
    sys.exit(main())
