"""Tasks and jobs in their tables, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred

from lcc.errors import Busy
from lcc.model.polled import PolledContent
from lcc.model.tasks import (
    Effects,
    FollowUp,
    JobNotice,
    JobSpec,
    JobState,
    KindLimits,
    LogRow,
    ManagerStatus,
    Task,
    TaskState,
    When,
)
from lcc.storage.tasks import orders
from lcc.storage.tasks.managers import managers
from lcc.storage.tasks.outbox import Answer
from lcc.storage.tasks.views import jobs_page, resources, statistics, tasks_page
from tests.support.databases import result_of
from tests.support.tasks import NOW, Tasks, task_database


@pytest.fixture
def tasks(backend: Any) -> Iterator[Tasks]:
    database = task_database(backend)
    yield Tasks(database)
    database.blocking.close()


def lose(tasks: Tasks, job: int, why: str) -> list[tuple[int, int]]:
    return result_of(Deferred.fromCoroutine(tasks.store.lose_attempts([(job, 1)], why, NOW)))


FULL = Task(
    0,
    JobSpec("fetch", "comments", ("--url", "http://a/ä b", ""), "site", ("allow:a", "deny:b"), "data"),
    When(cron="0 6 * * mon", timezone="Europe/Amsterdam"),
    auto=True,
    least_seconds=60,
    most_seconds=90,
)


def test_a_task_is_kept_as_it_was_added(tasks: Tasks) -> None:
    number = tasks.add(spec=FULL.spec, when=FULL.when, auto=True, least_seconds=60, most_seconds=90)
    task = tasks.task(number)
    assert (task.spec, task.when, task.auto, task.least_seconds, task.most_seconds) == (
        *(FULL.spec, FULL.when, True, 60, 90),
    )
    assert task.state is TaskState.ACTIVE and task.created_time == NOW and task.due_time and task.due_time > NOW
    other = tasks.add()
    assert [each.id for each in tasks.database.blocking.select(tasks_page)] == [number, other]


def test_a_task_has_one_open_job_and_the_next_a_period_after_its_start(tasks: Tasks) -> None:
    task = tasks.add(every=3600)
    [due] = tasks.make()
    assert due.kind == "command" and due.command == "true" and due.attempt == 0
    assert tasks.make() == [] and tasks.make(NOW + 10**6) == []
    [started] = tasks.start(due, now=NOW + 5)
    assert (started.id, started.attempt, started.task, started.spec.args) == (due.id, 1, task, ("a", "b c"))
    assert tasks.make(NOW + 10**6) == []
    job = tasks.job(due.id)
    assert job.state is JobState.RUNNING and job.manager == "m" and job.host == "host" and job.due_time is None
    ended = tasks.end(started, now=NOW + 100, exit_code=0, seconds=1.5, message="done")
    assert not ended.recorded[0].late and ended.recorded[0].over
    found = tasks.task(task)
    # The first one is spread.
    assert found.due_time is not None and NOW + 5 + 3600 <= found.due_time < NOW + 5 + 7200
    assert (found.started_time, found.ended_time, found.last_state) == (NOW + 5, NOW + 100, JobState.COMPLETED)
    assert tasks.make(found.due_time - 1) == []
    again = tasks.run(found.due_time)
    tasks.end(again, now=found.due_time + 1)
    assert tasks.task(task).due_time == found.due_time + 3600
    job = tasks.job(due.id)
    assert (job.state, job.ended_time, job.seconds, job.message) == (JobState.COMPLETED, NOW + 100, 1.5, "done")
    assert tasks.counters()["open"] == 0


def test_what_was_missed_is_made_up_for_by_one_job(tasks: Tasks) -> None:
    task = tasks.add(when=When(at="12:00"))
    due = tasks.task(task).due_time
    assert due is not None
    late = due + 3 * 86400 + 100
    started = tasks.run(late)
    tasks.end(started, now=late + 1)
    assert tasks.task(task).due_time == due + 4 * 86400
    assert tasks.make(late + 2) == []


def test_a_temporary_error_is_tried_again_three_times(tasks: Tasks) -> None:
    task = tasks.add(every=10**6)
    started = tasks.run()
    now, times = NOW, []
    for attempt in (1, 2, 3, 4):
        assert started.attempt == attempt
        tasks.end(started, JobState.TEMPORARY, now=now, exit_code=1, message="busy")
        job = tasks.job(started.id)
        assert job.state is JobState.TEMPORARY and job.exit_code == 1
        if attempt < 4:
            assert job.due_time is not None and job.ended_time is None and tasks.task(task).failures == 0
            times.append(job.due_time - now)
            now = job.due_time
            [due] = tasks.due(now)
            assert tasks.due(now - 1) == []
            [started] = tasks.start(due, now=now)
    assert times == sorted(times) and times[0] >= 60
    assert job.due_time is None and job.ended_time == now
    found = tasks.task(task)
    assert (found.failures, found.since_time, found.message) == (1, now, "busy")
    assert found.due_time is not None and found.due_time > now
    [day] = tasks.database.blocking.select(statistics, 0)
    assert (day.completed, day.temporary, day.retried) == (0, 1, 3)


def test_a_retry_is_never_later_than_the_period(tasks: Tasks) -> None:
    task = tasks.add(every=30)
    started = tasks.run()
    tasks.end(started, JobState.TEMPORARY, now=NOW)
    assert tasks.job(started.id).ended_time == NOW
    assert tasks.task(task).due_time is not None


def test_an_attempt_is_fenced_by_its_number(tasks: Tasks) -> None:
    tasks.add(every=10**6)
    first = tasks.run()
    assert lose(tasks, first.id, "manager m is lost") == [(first.id, 1)]
    job = tasks.job(first.id)
    assert job.state is JobState.LOST and job.due_time is not None
    [due] = tasks.due(job.due_time)
    [second] = tasks.start(due, now=job.due_time, manager="n")
    assert second.attempt == 2
    late = tasks.end(first, effects=Effects(items=("a",), followups=(FollowUp(JobSpec()),), data="x"))
    assert late.recorded[0].late and late.made == [] and tasks.items.stored == []
    assert tasks.job(first.id).state is JobState.RUNNING
    assert lose(tasks, first.id, "") == []
    tasks.end(second)
    assert tasks.end(second, effects=Effects(items=("a",))).recorded[0].late
    assert tasks.items.stored == []
    assert tasks.log(first.id) == [(1, "end", "lost: manager m is lost"), (2, "end", "completed")]


SPEC = JobSpec("fetch", "comments", ("7",))
THREE = tuple(FollowUp(SPEC, f"comments-{hours}", hours * 3600) for hours in (12, 24, 48))


def test_effects_come_with_the_ending(tasks: Tasks) -> None:
    tasks.no_robots_txt("http://site/", "http://other/")
    task = tasks.add(every=3600)
    started = tasks.run()
    effects = Effects(
        (LogRow(NOW, "info", "Hello"),),
        THREE,
        (JobNotice("http://Site/a", "feed"), JobNotice("http://site/b", "feed", "recheck", "text/html")),
        ("item", "http://other/c"),
        "new data",
        600,
    )
    ended = tasks.end(started, effects=effects, output="out")
    assert [each.due_time - NOW for each in ended.made] == [12 * 3600, 24 * 3600, 48 * 3600]
    found = tasks.task(task)
    assert found.spec.data == "new data" and found.when.every_seconds == 600
    assert tasks.items.stored == ["item", "http://other/c"]
    sets = result_of(tasks.store.outbox(0, 10))
    assert [(each.number, each.root, each.source, each.urls, each.job) for each in sets] == [
        (
            1,
            "http://site/",
            "feed",
            ({"c": "http://Site/a"}, {"c": "http://site/b", "m": "text/html", "op": "recheck"}),
            1,
        ),
        (2, "http://other/", "feed", ({"c": "http://other/c"},), 1),
    ]
    result_of(tasks.store.answer_sets([Answer(1)], NOW))
    assert [each.number for each in result_of(tasks.store.outbox(0, 10))] == [2]
    assert tasks.log(started.id) == [(1, "info", "Hello"), (1, "output", "out"), (1, "end", "completed")]
    [day] = tasks.database.blocking.select(statistics, 0)
    assert (day.completed, day.items) == (1, 2)
    assert tasks.run(NOW + 10**5).data == "new data"


def test_a_job_that_failed_has_no_effects_but_its_log(tasks: Tasks) -> None:
    task = tasks.add(every=10**6)
    started = tasks.run()
    effects = Effects((LogRow(NOW, "warn", "Hm"),), THREE, (), ("item",), "new data", 600)
    for state in (JobState.TEMPORARY, JobState.PERMANENT):
        assert tasks.end(started, state, effects=effects).made == []
        if state is JobState.TEMPORARY:
            [started] = tasks.start(*tasks.due(NOW + 10**5))
    assert tasks.items.stored == [] and tasks.task(task).spec.data == ""
    assert [text for _, level, text in tasks.log(started.id) if level == "warn"] == ["Hm", "Hm"]


def test_a_worker_that_runs_twice_makes_three_followups(tasks: Tasks) -> None:
    tasks.add(every=10**6)
    started = tasks.run()
    # It commits, and fails: it runs again, and commits once more.
    assert len(tasks.commit(started, 1, Effects(followups=THREE)).made) == 3
    assert tasks.commit(started, 1, Effects(followups=THREE)).recorded[0].late
    tasks.end(started, JobState.TEMPORARY)
    [started] = tasks.start(*[job for job in tasks.due(NOW + 10**4) if job.command == "true"])
    assert tasks.commit(started, 1, Effects(followups=THREE)).made == []
    tasks.end(started)
    # The task's next job, too; those without keys are each job's own.
    anonymous = (FollowUp(SPEC), FollowUp(SPEC), FollowUp(SPEC, "", 60))
    started = tasks.run(NOW + 2 * 10**6)
    assert len(tasks.end(started, effects=Effects(followups=THREE + anonymous), now=NOW + 2 * 10**6).made) == 2
    started = tasks.run(NOW + 4 * 10**6)
    assert len(tasks.end(started, effects=Effects(followups=anonymous), now=NOW + 4 * 10**6).made) == 2


def test_followups_of_followups_share_the_scope_of_their_task(tasks: Tasks) -> None:
    tasks.add(every=10**6)
    [made, *_] = tasks.end(tasks.run(), effects=Effects(followups=THREE)).made
    [started] = tasks.start(made, now=made.due_time)
    assert started.task == 0 and started.spec == SPEC
    assert tasks.end(started, effects=Effects(followups=THREE, data="kept")).made == []
    assert tasks.job(started.id).spec.data == "kept"


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        (Effects(items=("bad",)), "item 1 is bad"),
        (Effects(every_seconds=0), "a period of 0 seconds"),
        (Effects(notices=(JobNotice("ftp://a/b", "feed"),)), "'ftp://a/b' is no http or https URL"),
        (Effects(notices=(JobNotice("http://a/b", "told"),)), "may not notify with the source 'told'"),
        (Effects(notices=(JobNotice("http://a/b", "listed"),)), "only a feed with --listed"),
        (Effects(notices=(JobNotice("http://a/b", "nobody"),)), "unknown source 'nobody'"),
        (Effects(notices=(JobNotice("http://a/b", "feed", "drop"),)), "op='drop' is none of"),
        (Effects(followups=(FollowUp(JobSpec("feed")),)), "is made by its task"),
        (Effects(followups=tuple(FollowUp(JobSpec(), str(n)) for n in range(1000))), "there are 1,000 open jobs"),
    ],
)
def test_effects_that_cannot_be_are_the_jobs_own_error(tasks: Tasks, effects: Effects, words: str) -> None:
    task = tasks.add(every=10**6)
    tasks.add(every=10**6)
    first, second = tasks.start(*tasks.make())
    before = tasks.counters()
    with_log = Effects(
        (LogRow(NOW, "info", "Hello"),),
        (*THREE, *effects.followups),
        effects.notices,
        effects.items,
        "x",
        effects.every_seconds,
    )
    results = [
        orders.JobResult(job.id, job.attempt, JobState.COMPLETED, effects=given)
        for job, given in ((first, with_log), (second, Effects(data="y")))
    ]
    ended = tasks.record(*results)
    assert ended.made == [] and not ended.recorded[0].late
    job = tasks.job(first.id)
    assert job.state is JobState.PERMANENT and words in job.message and job.message.startswith("Effects refused: ")
    assert tasks.task(task).spec.data == "" and tasks.task(task).failures == 1
    assert tasks.log(first.id)[0] == (1, "info", "Hello")
    assert tasks.job(second.id).state is JobState.COMPLETED
    assert tasks.counters() == {**before, "open": 0}


def test_orders(tasks: Tasks) -> None:
    task = tasks.add(every=3600)
    assert tasks.order(orders.TASK_SUSPEND, task, why="by hand") == {"task": task}
    assert tasks.make() == [] and tasks.task(task).state is TaskState.SUSPENDED
    assert tasks.task(task).message == "by hand"
    assert tasks.order(orders.TASK_RESUME, task, NOW + 10) == {"task": task}
    assert tasks.order(orders.TASK_POLL, task) == {"error": f"task {task} is not polled: its kind is command"}
    [due] = tasks.make(NOW + 10)
    # What waits follows the change of its task.
    assert tasks.order(orders.TASK_SET, task, spec={"args": ["c"], "resource": "r"}) == {"task": task}
    assert tasks.last.changed == {due.id} and tasks.last.made[0].resource == "r"
    [started] = tasks.start(tasks.last.made[0])
    assert started.spec.args == ("c",)
    assert tasks.order(orders.JOB_RERUN, due.id) == {"error": f"job {due.id} is running"}
    assert tasks.order(orders.JOB_KILL, due.id) == {"job": due.id}
    assert tasks.last.killed == [(due.id, 1, "killed by an operator")]
    tasks.end(started, JobState.PERMANENT, message="killed by an operator", signal=15)
    assert "has ended" in tasks.order(orders.JOB_KILL, due.id)["error"]
    again = tasks.order(orders.JOB_RERUN, due.id)["job"]
    assert again != due.id and tasks.last.made[0].id == again
    assert "has an open job already" in tasks.order(orders.JOB_RERUN, due.id)["error"]
    assert tasks.order(orders.JOB_KILL, again) == {"job": again}
    assert tasks.job(again).state is JobState.PERMANENT and tasks.task(task).due_time is not None
    assert tasks.order(orders.TASK_REMOVE, task) == {"task": task}
    assert tasks.order(orders.TASK_REMOVE, task) == {"error": f"there is no task {task}"}
    assert tasks.order("nonsense") == {"error": "this scheduler knows no order 'nonsense'"}
    assert tasks.counters()["open"] == 0


def test_a_period_that_changes_counts_from_the_last_start(tasks: Tasks) -> None:
    task = tasks.add(every=10**6)
    tasks.end(tasks.run())
    tasks.order(orders.TASK_SET, task, NOW + 100, when={"every_seconds": 600})
    assert tasks.task(task).due_time == NOW + 600
    tasks.order(orders.TASK_SET, task, NOW + 10**4, when={"every_seconds": 300})
    assert tasks.task(task).due_time == NOW + 10**4
    assert "error" in tasks.order(orders.TASK_SET, task, when={"every_seconds": 0, "cron": "0 0 31 2 *"})


def test_jobs_of_people(tasks: Tasks) -> None:
    spec = {"kind": "k", "command": "c", "args": ["x"], "resource": "", "on": [], "data": "d"}
    number = tasks.order(orders.JOB_ADD, spec=spec, after_seconds=60)["job"]
    assert tasks.due(NOW + 59) == []
    # A retry, or a job that waits, may be had now.
    assert tasks.order(orders.JOB_RERUN, number) == {"job": number}
    [started] = tasks.start(*tasks.last.made)
    assert started.data == "d" and started.spec.args == ("x",)
    tasks.end(started, JobState.TEMPORARY)
    assert tasks.order(orders.JOB_KILL, number) == {"job": number}
    assert tasks.job(number).state is JobState.PERMANENT
    page = tasks.database.blocking.select(jobs_page, 2**60, 0, ["permanent-error"])
    assert [job.id for job in page] == [number]


def test_a_removed_task_ends_its_job(tasks: Tasks) -> None:
    task = tasks.add()
    [due] = tasks.make()
    tasks.order(orders.TASK_REMOVE, task)
    assert tasks.job(due.id).state is JobState.PERMANENT and tasks.start(due) == []
    task = tasks.add()
    started = tasks.run()
    tasks.order(orders.TASK_REMOVE, task)
    assert tasks.last.killed == [(started.id, 1, f"task {task} was removed")]
    tasks.end(started, effects=Effects(data="x"))
    assert tasks.counters()["open"] == 0


def test_resources(tasks: Tasks) -> None:
    assert tasks.order(orders.RESOURCE_SET, name="site", interval_seconds=60) == {"resource": "site"}
    tasks.add(spec=JobSpec(command="c", resource="site"))
    tasks.run()
    [resource] = tasks.database.blocking.select(resources)
    assert (resource.name, resource.interval_seconds, resource.started_time) == ("site", 60, NOW)
    tasks.order(orders.RESOURCE_SET, name="site", interval_seconds=90)
    [resource] = tasks.database.blocking.select(resources)
    assert (resource.interval_seconds, resource.started_time) == (90, NOW)
    assert tasks.order(orders.RESOURCE_REMOVE, name="site") == {"resource": "site"}
    assert "there is no resource" in tasks.order(orders.RESOURCE_REMOVE, name="site")["error"]


def test_there_are_at_most_so_many_open_jobs(tasks: Tasks) -> None:
    small = Tasks(tasks.database, jobs_max=2)
    for _ in range(4):
        small.add()
    assert len(small.make()) == 2 and small.make() == []
    small.end(small.start(small.due(NOW)[0])[0])
    assert len(small.make()) == 1


def test_a_lower_limit_of_open_jobs_is_no_fault(tasks: Tasks) -> None:
    for _ in range(4):
        tasks.add()
    assert len(tasks.make(limit=2)) == 2
    assert Tasks(tasks.database, jobs_max=1).make() == []


def test_an_order_that_is_not_understood_is_answered(tasks: Tasks) -> None:
    assert "knows no order" in tasks.order("task-paint")["error"]
    for kind, body in ((orders.RESOURCE_SET, {}), (orders.JOB_ADD, {"spec": {"args": (), "on": (), "new": 1}})):
        assert "does not understand" in tasks.order(kind, after_seconds=0, **body)["error"]


def test_a_newer_scheduler_fences_off_the_older_one(tasks: Tasks) -> None:
    tasks.add()
    newer = tasks.another_store()
    result_of(newer.claim())
    with pytest.raises(Busy, match="a newer scheduler"):
        tasks.make()


def test_no_number_of_a_set_is_given_twice_after_a_restore(tasks: Tasks) -> None:
    """The tables are put back from a backup in which a set waits: the UNS may have had it, and those after it."""
    tasks.no_robots_txt("http://a/")

    def notify(url: str) -> list[int]:
        tasks.order(orders.JOB_ADD, spec=attrs.asdict(JobSpec(command="true")), after_seconds=0)
        tasks.end(tasks.run(), effects=Effects(notices=(JobNotice(url, "link"),)))
        return [each.number for each in result_of(tasks.store.outbox(0, 10))]

    [waiting] = notify("http://a/1")
    before = result_of(tasks.store.claim()).epoch
    backup = tasks.counters()["notice"]
    *_, later = notify("http://a/2")
    tasks.database.now(lambda txn: txn.execute("DELETE FROM tasknotices WHERE number = ?", [later]))
    tasks.database.now(lambda txn: txn.execute("UPDATE schedulerfence SET value = ? WHERE name = 'notice'", [backup]))
    assert result_of(tasks.store.claim()).epoch == before
    first, new = notify("http://a/3")
    assert first == waiting and new > later
    result_of(tasks.store.answer_sets([Answer(first), Answer(new)], NOW))
    assert result_of(tasks.store.claim()).epoch != before


def test_every_write_may_be_done_twice(tasks: Tasks) -> None:
    tasks.no_robots_txt("http://site/", "http://other/")
    task = tasks.add(every=3600)
    tasks.database.lose = 1
    [due] = tasks.make() or tasks.due(NOW)
    tasks.database.lose = 1
    [started] = tasks.start(due)
    tasks.database.lose = 1
    effects = Effects((LogRow(NOW, "info", "Hello"),), THREE, (JobNotice("http://site/a", "feed"),), ("item",), "x")
    ended = tasks.end(started, effects=effects)
    # Its answer was lost; what it made is found by when it is due.
    assert ended.recorded[0].late and len(tasks.due(NOW + 10**6)) == 3
    assert tasks.items.stored == ["item"] and len(result_of(tasks.store.outbox(0, 9))) == 1
    assert tasks.task(task).last_state is JobState.COMPLETED and tasks.counters()["open"] == 3
    assert len(tasks.log(started.id)) == 2


def test_jobs_are_kept_for_a_time(tasks: Tasks) -> None:
    tasks.add()
    started = tasks.run()
    tasks.end(started)
    tasks.order(orders.JOB_RERUN, started.id, NOW)
    purge = tasks.store.purge_page
    assert result_of(purge(NOW + 99, 100, 30)) is False
    assert tasks.job(started.id).state is JobState.COMPLETED
    result_of(purge(NOW + 100, 100, 30))
    assert [job.state for job in tasks.database.blocking.select(jobs_page, 2**60)] == [JobState.PENDING]
    assert tasks.log(started.id) == []
    result_of(purge(NOW + 32 * 86400, 100, 30))
    assert tasks.database.blocking.select(statistics, 0) == []


def test_progress(tasks: Tasks) -> None:
    tasks.add()
    started = tasks.run()
    result_of(
        tasks.store.note_progress(
            [(started.id, 1, 4711, ""), (started.id, 1, 0, "half"), (started.id, 9, 5, "x")], NOW + 3
        )
    )
    job = tasks.job(started.id)
    assert (job.pid, job.message, job.updated_time) == (4711, "half", NOW + 3)
    assert [each.id for each in result_of(tasks.store.running_jobs())] == [started.id]


def test_a_hundred_thousand_tasks_are_found_by_index(tasks: Tasks) -> None:
    number = 100_000 if tasks.database.dialect.name == "sqlite" else 5_000
    tasks.add(now=NOW)

    def many(txn: Any) -> None:
        columns = [row[0] for row in tasks_columns(txn)]
        row = dict(zip(columns, txn.one(f"SELECT {', '.join(columns)} FROM tasks"), strict=True))
        rows = [tuple({**row, "id": each + 2, "due_time": NOW + 1000 + each}.values()) for each in range(number)]
        txn.insert("tasks", columns, rows)

    tasks.database.now(many)
    assert len(tasks.make(NOW)) == 1
    assert tasks.due_work(NOW + 999).tasks == []
    assert len(tasks.due_work(NOW + 1000).tasks) == 1
    assert len(tasks.make(NOW + 1009)) == 10
    if tasks.database.dialect.name == "sqlite":
        plans = tasks.database.query(
            "EXPLAIN QUERY PLAN SELECT id FROM tasks WHERE polled = 0 AND due_time <= ? ORDER BY due_time, id", [1]
        )
        assert [plan[-1] for plan in plans] == [
            "SEARCH tasks USING COVERING INDEX tasks_due (polled=? AND due_time<?)"
        ]


def tasks_columns(txn: Any) -> list[tuple[str]]:
    if txn.dialect.name == "sqlite":
        return [(row[1],) for row in txn.query("PRAGMA table_info(tasks)")]
    return [(row[0],) for row in txn.query("SHOW COLUMNS FROM tasks")]


def test_managers_as_the_scheduler_knows_them(tasks: Tasks) -> None:
    kinds = (KindLimits("*", 2), KindLimits("fetch", 1, 60, 1 << 30, 64))
    old = ManagerStatus("ä", "host", "r1", NOW, NOW, NOW, capacity=3, kinds=kinds)
    other = ManagerStatus("b", "host2", "r", NOW, NOW, NOW, down_time=NOW, paused="by hand")
    save = tasks.store.save_managers
    result_of(save([old, other], ["ä"], NOW + 1, 60))
    tasks.add()
    tasks.start(*tasks.make(), manager="ä")
    shown = {each.name: each for each in tasks.database.blocking.interact(managers)}
    assert shown == {"ä": attrs.evolve(old, heard_time=NOW + 1, running=1), "b": other}
    newer = attrs.evolve(old, run="r2", first_time=NOW + 50, started_time=NOW + 50, heard_time=NOW + 50)
    result_of(save([newer], ["ä"], NOW + 60, 60))
    result_of(save([newer], ["ä"], NOW + 60, 60))
    expected = attrs.evolve(newer, first_time=NOW, heard_time=NOW + 60, running=1)
    assert tasks.database.blocking.interact(managers) == [expected]


def test_orders_keep_to_the_jobs_that_may_be_open(backend: Any) -> None:
    database = task_database(backend)
    tasks = Tasks(database, jobs_max=2)
    spec = {"kind": "command", "command": "true", "args": [], "resource": "", "on": [], "data": ""}
    assert [tasks.order(orders.JOB_ADD, spec=spec, after_seconds=0) for _ in range(2)] == [{"job": 1}, {"job": 2}]
    refused = {"error": "there are 2 open jobs already ([scheduler] jobs_max)"}
    assert tasks.order(orders.JOB_ADD, spec=spec, after_seconds=0) == refused
    tasks.order(orders.JOB_KILL, 1)
    assert tasks.order(orders.JOB_RERUN, 1) == {"job": 3}
    assert tasks.order(orders.JOB_RERUN, 1) == refused
    database.blocking.close()


def test_an_ending_of_another_manager_does_nothing(tasks: Tasks) -> None:
    task = tasks.add()
    job = tasks.run()
    assert tasks.end(job, manager="n", effects=Effects(data="x")).recorded[0].late
    assert tasks.job(job.id).state is JobState.RUNNING and tasks.task(task).spec.data == ""
    assert not tasks.end(job, manager="m").recorded[0].late


def test_a_job_that_is_done_once_more_gets_what_it_was_given(tasks: Tasks) -> None:
    spec = {"kind": "text", "command": "", "args": [], "resource": "", "on": [], "data": ""}
    number = tasks.order(orders.JOB_ADD, spec=spec, after_seconds=0)["job"]
    content = PolledContent("http://a/", 1, 2, 3, "ab" * 16, "cd" * 20).to_json()
    tasks.database.now(lambda txn: txn.execute("UPDATE jobs SET input = ? WHERE id = ?", [content, number]))
    tasks.order(orders.JOB_KILL, number)
    again = tasks.order(orders.JOB_RERUN, number)["job"]
    assert tasks.run().input == content and again != number
