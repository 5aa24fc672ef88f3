"""``lcc-admin task``, ``job`` and ``resource``, with and without a scheduler that carries their orders out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from lcc.admin.cli import main
from lcc.admin.tasks import orders as task_orders
from lcc.config import load_config
from lcc.model.tasks import Effects, JobState, LogRow, ManagerStatus
from lcc.storage.database.migrations import TASKS
from lcc.storage.database.place import place_of
from tests.support.admin import Lcc
from tests.support.databases import DirectDatabase, result_of
from tests.support.tasks import NOW, Tasks


@contextmanager
def scheduler(lcc: Lcc, monkeypatch: Any) -> Iterator[Tasks]:
    """Carries orders out whenever a command waits for its answer."""
    place = place_of(load_config(lcc.config_path), TASKS)
    database = DirectDatabase(place.url, place.home, place.series)
    tasks = Tasks(database)
    answer = task_orders.answer

    def carried_out(*arguments: Any) -> Any:
        tasks.carry_out(NOW)
        return answer(*arguments)

    for module in ("tasks", "jobs", "resources"):
        monkeypatch.setattr(f"lcc.admin.tasks.{module}.answer", carried_out)
    yield tasks
    database.blocking.close()


def say(lcc: Lcc, *words: str, code: int = 0) -> str:
    """What a command says."""
    return lcc.admin(*words, code=code).output


@pytest.fixture(autouse=True)
def soon(monkeypatch: Any) -> None:
    """Nobody answers later; it is always the same time."""
    monkeypatch.setattr("lcc.admin.role_tables._WAIT_SECONDS", 0.1)
    monkeypatch.setattr("lcc.admin.context.Admin.now", lambda _: NOW)


def test_a_task(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch) as tasks:
        words = ("--every", "3600", "--on", "deny:db*", "--resource", "r", "--", "fetch", "--city", "A b")
        assert say(lcc, "task", "add", *words) == "task 1: fetch --city 'A b', every 3600 s\n"
        [row] = [json.loads(line) for line in say(lcc, "task", "list", "--json").splitlines()]
        assert (row["id"], row["command"], row["args"], row["on"]) == (1, "fetch", ["--city", "A b"], ["deny:db*"])
        assert (row["every_seconds"], row["at"], row["state"], row["due_time"]) == (3600, None, "active", NOW)
        started = tasks.run()
        logs = (LogRow(NOW, "info", "Hello\x1b[31m"),)
        tasks.end(started, JobState.TEMPORARY, message="no network", output="a\nb", effects=Effects(logs))
        shown = say(lcc, "task", "show", "1")
        assert "fetch --city 'A b'" in shown and "temporary-error no network" in shown and "every 3600 s" in shown
        assert json.loads(say(lcc, "task", "show", "1", "--json"))["jobs"][0]["state"] == "temporary-error"
        shown = say(lcc, "job", "show", str(started.id))
        assert "| b" in shown and "Hello" in shown and "\x1b" not in shown
        assert json.loads(say(lcc, "job", "show", "1", "--json"))["log"][0]["text"] == "Hello\x1b[31m"
        say(lcc, "task", "set", "1", "--at", "06:30", "--timezone", "Europe/Amsterdam", "--anywhere", "--", "other")
        task = tasks.task(1)
        assert (task.when.at, task.when.every_seconds, task.when.timezone) == ("06:30", 0, "Europe/Amsterdam")
        assert (task.spec.command, task.spec.args, task.spec.on, task.spec.resource) == ("other", (), (), "r")
        for option, value in (("--at", "07:00"), ("--cron", "0 6 * * *")):
            say(lcc, "task", "set", "1", option, value)
            assert tasks.task(1).when.timezone == "Europe/Amsterdam"
        say(lcc, "task", "set", "1", "--timezone", "UTC", "--no-resource")
        assert (tasks.task(1).when.timezone, tasks.task(1).spec.resource) == ("UTC", "")
        assert say(lcc, "task", "suspend", "1") == "task 1 is suspended\n"
        assert "suspended" in say(lcc, "task", "list", "--suspended")
        assert json.loads(say(lcc, "task", "resume", "1", "--json")) == {"id": 1, "done": True}
        assert say(lcc, "task", "remove", "1") == "task 1 is removed\n"
        assert say(lcc, "task", "list") == "there are no tasks\n"


def test_jobs(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch) as tasks:
        assert say(lcc, "job", "list") == "there are no such jobs\n"
        assert say(lcc, "job", "add", "--kind", "k", "--data", "d", "--", "c", "-x") == "job 1: c -x\n"
        [due] = tasks.due(NOW)
        assert say(lcc, "job", "rerun", "1") == "job 1 is tried now\n"
        [started] = tasks.start(due)
        assert started.data == "d" and started.spec.kind == "k" and started.spec.args == ("-x",)
        [row] = [json.loads(line) for line in say(lcc, "job", "list", "--state", "running", "--json").splitlines()]
        assert (row["id"], row["host"], row["attempt"]) == (1, "host", 1)
        assert say(lcc, "job", "kill", "1", "--why", "wrong") == "job 1 is being ended\n"
        assert tasks.last_killed() == [(1, 1, "wrong")]
        assert "is running" in say(lcc, "job", "rerun", "1", code=1)
        tasks.end(started, JobState.PERMANENT, signal=15, seconds=2.4)
        said = say(lcc, "job", "kill", "1", code=1)
        assert "job 1 has ended (permanent-error)" in said and "Next: lcc-admin job show 1" in said
        assert say(lcc, "job", "rerun", "1") == "job 1 is done again as job 2\n"
        assert "permanent-error" in say(lcc, "job", "list")
        statistics = json.loads(say(lcc, "job", "statistics", "--json"))
        assert (statistics["kind"], statistics["permanent"], statistics["seconds"]) == ("k", 1, 2.4)
        assert "2026-" in say(lcc, "job", "statistics")


def test_resources(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch):
        assert say(lcc, "resource", "list") == "no resource has an interval\n"
        assert say(lcc, "resource", "add", "site", "--interval", "10") == "resource site: 10 s\n"
        assert "already" in say(lcc, "resource", "add", "site", "--interval", "10", code=1)
        say(lcc, "resource", "set", "site", "--interval", "60")
        assert json.loads(say(lcc, "resource", "list", "--json"))["interval_seconds"] == 60
        assert say(lcc, "resource", "remove", "site") == "resource site is removed\n"
        assert "there is no resource" in say(lcc, "resource", "remove", "site", code=1)
        assert "there is no resource" in say(lcc, "resource", "set", "site", "--interval", "1", code=1)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--every", "60"), 1, "no command was given"),
        (("--", "c"), 1, "either a period, or a time of day, or a cron line"),
        (("--every", "60", "--at", "06:30", "--", "c"), 1, "either a period"),
        (("--cron", "0 0 31 2 *", "--", "c"), 1, "is never due"),
        (("--at", "25:00", "--", "c"), 1, "is not like 06:30"),
        (("--at", "06:30", "--timezone", "Mars", "--", "c"), 1, "is no time zone"),
        (("--every", "60", "--timezone", "UTC", "--", "c"), 1, "makes no sense without --at or --cron"),
        (("--every", "0", "--", "c"), 2, "--every"),
        (("--every", "60", "--on", "host", "--", "c"), 2, "is not like allow:HOST"),
        (("--every", "60", "--", "/bin/sh"), 1, "is no name of an executable"),
        (("--every", "60", "--", "../sh"), 1, "is no name of an executable"),
        (("--every", "60", "--", "tools/../sh"), 1, "is no name of an executable"),
        (("--every", "60", "--", "tools/"), 1, "is no name of an executable"),
        (("--every", "60", "--kind", "x" * 101, "--", "c"), 2, "printable characters"),
        (("--every", "60", "--kind", "b d", "--", "c"), 2, "no kind that [manager] kinds could name"),
        (("--every", "60", "--kind", "a=b", "--", "c"), 2, "no kind that [manager] kinds could name"),
        (("--every", "60", "--on", "deny:*", "--", "c"), 2, "denies all hosts"),
        (("--every", "60", "--kind", "sitemap"), 1, "needs a URL"),
        (("--every", "60", "--", "c", "a" * 20000), 1, "16384 are allowed"),
    ],
)
def test_what_makes_no_task(lcc: Lcc, words: tuple[str, ...], code: int, text: str) -> None:
    assert text in say(lcc, "task", "add", *words, code=code)


def test_an_executable_in_a_folder_of_a_worker_folder(lcc: Lcc) -> None:
    said = say(lcc, "task", "add", "--every", "60", "--", "tools/clean.sh", "a")
    assert "task 1: tools/clean.sh a, every 60 s" in said


def test_what_is_not_there(lcc: Lcc) -> None:
    assert "there is no task 7" in say(lcc, "task", "show", "7", code=1)
    assert "there is no task 7" in say(lcc, "task", "suspend", "7", code=1)
    assert "there is no job 7" in say(lcc, "job", "kill", "7", code=1)
    assert "are made by their tasks" in say(lcc, "job", "add", "--kind", "feed", "--", "http://a/", code=1)


def test_without_a_scheduler(lcc: Lcc) -> None:
    said = say(lcc, "task", "add", "--every", "60", "--", "c")
    assert said.startswith("ordered: task 1: c, every 60 s\n") and "as soon as it runs" in said
    assert json.loads(say(lcc, "job", "add", "--json", "--", "c")) == {"id": None, "done": False}


def test_completion(lcc: Lcc, monkeypatch: Any) -> None:
    with scheduler(lcc, monkeypatch):
        say(lcc, "task", "add", "--every", "60", "--", "fetch")
        say(lcc, "resource", "add", "site", "--interval", "10")
        complete = ShellComplete(main, {}, "lcc-admin", "_LCC_ADMIN_COMPLETE")
        config = ["--config", str(lcc.config_path)]
        assert [(each.value, each.help) for each in complete.get_completions([*config, "task", "show"], "")] == [
            ("1", "fetch")
        ]
        assert [each.value for each in complete.get_completions([*config, "resource", "set"], "s")] == ["site"]
        states = complete.get_completions([*config, "job", "list", "--state"], "temp")
        assert [each.value for each in states] == ["temporary-error"]


def test_status_where_the_tables_of_tasks_cannot_be_read(lcc: Lcc) -> None:
    lcc.admin("init")
    found = list((lcc.folder / "home").glob("tasks.sqlite*"))
    if not found:
        return  # MariaDB has one database for all
    for path in found:
        path.write_bytes(b"no database" * 1000)
    screen = say(lcc, "status")
    assert "scheduler     unknown: cannot reach the database: file is not" in screen and "queue  " in screen
    assert "cannot reach" in json.loads(say(lcc, "status", "--json"))["tasks"]["error"]


def test_status_shows_scheduler_and_managers(lcc: Lcc, monkeypatch: Any) -> None:
    lcc.admin("init")
    assert "scheduler" not in say(lcc, "status")
    say(lcc, "task", "add", "--every", "60", "--", "c")
    assert "scheduler     has not run yet" in say(lcc, "status")
    with scheduler(lcc, monkeypatch) as tasks:
        up = ManagerStatus("one", "alpha", "r", 1, NOW - 300, NOW, capacity=4)
        down = ManagerStatus("two", "beta", "r", 1, NOW - 900, NOW - 600, NOW - 600)
        result_of(tasks.store.save_managers([up, down], [], NOW, 86400))
        tasks.carry_out()
        tasks.run()
        waits = json.loads(say(lcc, "job", "add", "--json", "--", "missing"))
        screen = say(lcc, "status")
        assert "scheduler     run 1 is running; last heard of 0 seconds ago" in screen
        assert "jobs          1 running, 1 waiting" in screen
        assert "manager       one on alpha: up for 5 minutes, 0 of 4 jobs running" in screen
        assert "manager       two on beta: down since 2026-05-28 20:16:40 (10 minutes)" in screen
        record = json.loads(say(lcc, "status", "--json"))["tasks"]
        assert (record["alive"], record["running"], record["waiting"]) == (True, 1, 1)
        assert [each["state"] for each in record["managers"]] == ["up", "down"]
        monkeypatch.setattr("lcc.admin.context.Admin.now", lambda _: NOW + 100)
        screen = say(lcc, "status")
        assert "is not running; last heard of 100 seconds ago" in screen and "one on alpha: unknown" in screen
        shown = say(lcc, "job", "show", str(waits["id"]))
        assert "waits:      due for 100 seconds: no manager that may run it has this executable, or room" in shown
        assert "lcc-admin check on the manager's host, and its log, name the executables that it refuses" in shown


@pytest.mark.parametrize("what", ["task", "job"])
def test_a_kind_that_cannot_be(lcc: Lcc, what: str) -> None:
    """A byte that is no UTF-8, as the shell gave it."""
    assert "printable characters" in lcc.admin(what, "list", "--kind", "\udce9", code=2).output
