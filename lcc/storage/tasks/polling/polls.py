"""Polls: URLs that the scheduler has the queue fetch, and what became of them.

A task of a polled kind has no job while its content does not change: a due poll is a notice in the outbox, and what
became of it is read from the queue's own tables (:mod:`lcc.storage.tasks.polling.poll_results`), soon: a poll that
waits is looked at more and more seldom (``look_time``).  Only where its page has changed a job is made, whose input
says where the content is.  That it has found nothing new is noted when the next one is due: so that costs next to
nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import attrs

from lcc.interfaces import ITaskRules
from lcc.model.polled import PolledContent
from lcc.model.tasks import DueJob, Job, JobState, Task, TaskState
from lcc.storage.database.transactions import Question, Txn
from lcc.storage.tasks.jobs.due import insert_job
from lcc.storage.tasks.outbox import OUTBOX_SINCE, OutboxSet, add_polls, root_of
from lcc.storage.tasks.polling.robots import ROBOTS, known_so_far, remove_task, robots_known, settled
from lcc.storage.tasks.rows import TASKS, task_of, task_values, write_list
from lcc.storage.tasks.write import TaskWrite

_OWN = ("pid", "urlkey", "polls", "asked_time", "asked_order", "asked_generation", "seen", "seen_digest")
_BYTES = ("urlkey", "seen_digest")
_ROW = (*TASKS.columns, "polled", *_OWN, "look_time")
_NOTED = (
    *("due_time", "started_time", "ended_time", "last_state", "since_time", "failures", "message", "state"),
    *("every_seconds", "polls", "asked_time", "asked_order", "asked_generation", "look_time"),
)
"""What a poll changes of its task, besides whose its page is."""
_STATE = ("due_time", "ended_time", "last_state", "since_time", "failures", "message", "state", "every_seconds")
_SELECT = f"SELECT {', '.join((*TASKS.columns, *_OWN))} FROM tasks"
_LATER_SECONDS = 60
LOOK_SECONDS, LOOK_SECONDS_MAX = 2, 64
"""It is looked at what became of a poll so soon after it has begun, then when it has waited about twice as long."""


class Poll(NamedTuple):
    """A task of a polled kind.

    :ivar pid: in whose turns it is polled; 0: not known yet.
    :ivar key: of its page, for all mime types; empty: not known yet.
    :ivar history: of its last polls, as the rules write it.
    :ivar asked_time: when its open poll was put into the queue; None: none is.
    :ivar order: order number of ``pid`` that was drawn when its open poll began; 0: none was.
    :ivar generation: what the queue has fetched for its open poll, or failed to, has a greater one.
    :ivar seen: change number of the content that its workers got last; 0: they are to get what there is.
    :ivar seen_digest: of that content.
    """

    task: Task
    pid: int
    key: bytes
    history: str
    asked_time: int | None
    order: int
    generation: int
    seen: int
    seen_digest: bytes

    @property
    def url(self) -> str:
        """That is polled."""
        return self.task.spec.args[0] if self.task.spec.args else ""


class Found(NamedTuple):
    """What a poll has found: the page has this content.

    :ivar content: for the worker.
    :ivar order: order number of the poll, where the page is its site's own word; else 0.
    :ivar moved: the URL that it has moved to for good; empty: nowhere.
    """

    poll: Poll
    change: int
    content: PolledContent
    order: int = 0
    moved: str = ""


class Asked(NamedTuple):
    """A poll that is put into the queue, and what became of the one before it.

    :ivar pid: whose the page is; 0: not known.
    :ivar key: of the page; empty: the URL is none.
    :ivar order: order number of ``pid`` that was drawn for it; 0: none was.
    :ivar generation: the greatest of the queue before it is put there.
    :ivar unchanged: the last poll has found nothing new.
    :ivar note: what else people are to know of that; empty: nothing.
    :ivar fault: why it has failed; empty: it has not.
    :ivar gone: the page says that it is gone for ever (410): it is polled no longer.
    :ivar code: of the fault, if it is one of a fetch, or of the UNS.
    :ivar max_age: so many seconds the page may be kept, as its server said; 0: it did not.
    :ivar moved: the URL that it has moved to for good; empty: nowhere.
    :ivar wait: it still waits in the queue: no other one is put there.
    """

    poll: Poll
    pid: int = 0
    key: bytes = b""
    order: int = 0
    generation: int = 0
    unchanged: bool = False
    note: str = ""
    fault: str = ""
    gone: bool = False
    wait: bool = False
    code: int = 0
    max_age: int = 0
    moved: str = ""


def _poll(row: tuple[Any, ...]) -> Poll:
    own: list[Any] = [
        bytes(value or b"") if name in _BYTES else value for name, value in zip(_OWN, row[-len(_OWN) :], strict=True)
    ]
    return Poll(task_of(row[: len(TASKS.columns)]), *own)


class PollsToDo(NamedTuple):
    """What is to be done about polls, all at one time.

    :ivar looks: open ones of which it is to be seen what became of them, the longest first.
    :ivar due: those that are due, the longest first.
    :ivar untold: since when notices wait for the UNS; None: none does.
    """

    looks: list[Poll]
    due: list[Poll]
    untold: int | None


def polls_to_do(txn: Txn, now: int, looks_max: int, due_max: int) -> PollsToDo:
    """What is to be done now, at most so many of each."""
    look = f"{_SELECT} WHERE look_time <= ? AND due_time IS NOT NULL ORDER BY look_time, id LIMIT ?"
    due = f"{_SELECT} WHERE polled = 1 AND due_time <= ? ORDER BY due_time, id LIMIT ?"
    found = txn.query_several(
        [Question(look, None, [now, looks_max]), Question(due, None, [now, due_max]), Question(OUTBOX_SINCE)]
    )
    looks, dues, oldest = found
    return PollsToDo([_poll(row) for row in looks], [_poll(row) for row in dues], oldest[0][0] if oldest else None)


def polls_of_pages(txn: Txn, keys: Sequence[bytes]) -> list[Poll]:
    """Those of these pages that have no open job and are not suspended."""
    sql = f"{_SELECT} WHERE urlkey IN ({{in}}) AND due_time IS NOT NULL"
    return [_poll(row) for row in txn.query_in(sql, keys)]


def polls_position(txn: Txn) -> int | None:
    """Up to which change the pages were looked at; None: none were."""
    found = txn.value("SELECT value FROM meta WHERE name = 'polls_change'")
    return None if found is None else int(found)


def save_position(write: TaskWrite, change: int) -> None:
    """Pages were looked at up to this change."""
    write.txn.upsert("meta", ["name", "value"], [("polls_change", str(change))], ["name"], ["value"])


def make_found_jobs(write: TaskWrite, found: Sequence[Found]) -> list[DueJob]:
    """A job for each page that has changed; its task has no other one.  Where no more may be open, they are looked
    at again in a minute."""
    made = []
    sql = "SELECT id, args FROM tasks WHERE id IN ({in}) AND state = 'active' AND due_time IS NOT NULL"
    ready = dict(write.txn.query_in(sql, [each.poll.task.id for each in found]))
    for each in found:
        task = each.poll.task
        if ready.pop(task.id, None) != write_list(task.spec.args):
            continue  # it has a job, or reads another page now
        if not write.room:
            sql = "UPDATE tasks SET due_time = ?, look_time = NULL WHERE id = ?"
            write.txn.execute(sql, [write.now + _LATER_SECONDS, task.id])
            continue
        spec = attrs.evolve(task.spec, data="")
        job = Job(
            write.next("job"),
            spec,
            task.id,
            scheduled_time=write.now,
            due_time=write.now,
            updated_time=write.now,
        )
        made.append(insert_job(write, job, f"task/{task.id}", None, each.content.to_json(), each.order))
        sql = "UPDATE tasks SET due_time = NULL, asked_time = NULL, asked_order = 0, look_time = NULL"
        values = [each.change, each.content.digest, task.id]
        write.txn.execute(f"{sql}, seen = ?, seen_digest = ? WHERE id = ?", values)
        if each.moved:
            _move(write, task, each.moved)
    return made


class Noted(NamedTuple):
    """What was made where it was noted what became of polls.

    :ivar sets: that stand in the outbox.
    """

    jobs: list[DueJob]
    sets: list[OutboxSet]


def note_polls(
    write: TaskWrite, rules: ITaskRules, found: Sequence[Found], looked: Sequence[Asked], asked: Sequence[Asked]
) -> Noted:
    """All that a look at polls has led to.

    :param looked: as :func:`_look_at` says.
    :param asked: those that are put into the queue.
    """
    jobs = make_found_jobs(write, found)
    _look_at(write, rules, looked)
    return Noted(jobs, _ask(write, rules, asked))


def _ask(write: TaskWrite, rules: ITaskRules, asked: Sequence[Asked]) -> list[OutboxSet]:
    """Put polls into the outbox, and note what became of those before them; returns what was put there."""
    noted: list[_Note] = []
    polls: list[tuple[int, str, str]] = []
    current = {
        row[0]: row[1]
        for row in write.txn.query_in(
            "SELECT id, due_time FROM tasks WHERE id IN ({in})", [each.poll.task.id for each in asked]
        )
    }
    for each in asked:
        poll, task = each.poll, each.poll.task
        if current.get(task.id) != task.due_time:
            continue  # it was changed, or removed, or this is done already
        if each.wait:
            later = write.now + max(60, min(task.when.every_seconds or 600, 600))
            write.txn.execute("UPDATE tasks SET due_time = ? WHERE id = ?", [later, task.id])
            continue
        if each.gone and task.spec.kind == ROBOTS:
            remove_task(write, task.id)  # asked for again with the next hint
            continue
        history = poll.history
        if each.unchanged:
            write.count(task.spec.kind, unchanged=1)
            interval = write.now - (poll.asked_time or 0)
            history, task = after_poll(write.txn, rules, task, history, False, interval, each.max_age)
        task = _judged(write, rules, task, each)
        note = _Note(each, task, history, write.now, None)
        if task.state is TaskState.ACTIVE:
            note = note._replace(due_time=_next(write.txn, rules, task, write.now))
        if each.moved:
            _note(write, [note])
            _move(write, task, each.moved)
            sql = "UPDATE tasks SET due_time = ?, asked_time = NULL, asked_order = 0, look_time = NULL WHERE id = ?"
            write.txn.execute(sql, [write.now, task.id])
            continue
        noted.append(note)
        if note.asks:
            polls.append((each.pid, _root(poll.url), poll.url))
    _note(write, noted)
    return add_polls(write, polls)


class _Note(NamedTuple):
    """What a task is like after one of its polls was put into the queue, or could not be.

    :ivar task: as its poll before has left it.
    :ivar due_time: of the next one; None: it is suspended.
    """

    asked: Asked
    task: Task
    history: str
    now: int
    due_time: int | None

    @property
    def asks(self) -> bool:
        """It is put into the queue: where no provider can be made for its site, it is not."""
        return self.task.state is TaskState.ACTIVE and self.asked.pid != 0

    @property
    def page(self) -> tuple[int, bytes]:
        """Provider and key of its page."""
        return self.asked.pid or self.asked.poll.pid, self.asked.key or self.asked.poll.key

    @property
    def values(self) -> tuple[Any, ...]:
        """Of the columns :data:`_NOTED`."""
        task, goes_on = self.task, self.task.state is TaskState.ACTIVE
        return (
            *(self.due_time, self.now if goes_on else task.started_time, task.ended_time),
            *(task.last_state.value if task.last_state else "", task.since_time, task.failures, task.message),
            *(task.state.value, task.when.every_seconds, self.history),
            *((self.now, self.asked.order) if self.asks else (None, 0)),
            self.asked.generation,
            self.now + LOOK_SECONDS if self.asks and self.page[1] else None,
        )

    @property
    def row(self) -> tuple[Any, ...]:
        """Of :data:`_ROW`."""
        (pid, key), poll = self.page, self.asked.poll
        whole = dict(zip(TASKS.columns, task_values(self.task), strict=True))
        whole |= {"polled": 1, "pid": pid, "urlkey": key or None, "seen": poll.seen}
        whole["seen_digest"] = poll.seen_digest or None
        whole |= dict(zip(_NOTED, self.values, strict=True))
        return tuple(whole[name] for name in _ROW)


def _note(write: TaskWrite, notes: Sequence[_Note]) -> None:
    """Update tasks after their polls: statement by statement that would cost a database server most of a poll.  Most
    of them have found nothing new, and are due together again: these become alike."""
    alike: defaultdict[tuple[Any, ...], list[_Note]] = defaultdict(list)
    others: list[tuple[Any, ...]] = []
    for note in notes:
        poll = note.asked.poll
        alike[note.values if note.page == (poll.pid, poll.key) else (note.task.id,)].append(note)
    assignments = ", ".join(f"{name} = ?" for name in _NOTED)
    for values, some in alike.items():
        if len(some) > 1:
            ids = [note.task.id for note in some]
            write.txn.execute_in(f"UPDATE tasks SET {assignments} WHERE id IN ({{in}})", ids, values)
        else:
            others.append(some[0].row)
    write.txn.upsert("tasks", _ROW, others, ["id"], (*_NOTED, "pid", "urlkey"))


def _look_at(write: TaskWrite, rules: ITaskRules, looked: Sequence[Asked]) -> None:
    """Note what became of polls before the next ones are due: an error, or its end; that they wait.

    :param looked: ``wait``: it is not known yet.
    """
    sql = "SELECT id, asked_time, due_time FROM tasks WHERE id IN ({in})"
    current = {row[0]: row[1:] for row in write.txn.query_in(sql, [each.poll.task.id for each in looked])}
    known: list[int] = []
    later: defaultdict[int, list[int]] = defaultdict(list)
    for each in looked:
        poll, task = each.poll, each.poll.task
        if current.get(task.id) != (poll.asked_time, task.due_time):
            continue  # it was changed, or removed, or this is done already
        if each.wait:
            later[_look_again(write.now - (poll.asked_time or 0))].append(task.id)
        elif each.fault:
            _failed(write, rules, each)
        else:
            known.append(task.id)
            if each.unchanged and task.failures:
                _save_state(write, _told(task, each, write.now))
    # What is fetched from now on, for another reason, is newer than the order number.
    write.txn.execute_in("UPDATE tasks SET look_time = NULL, asked_order = 0 WHERE id IN ({in})", known)
    for seconds, tasks in later.items():
        write.txn.execute_in("UPDATE tasks SET look_time = ? WHERE id IN ({in})", tasks, [write.now + seconds])


def _look_again(waited_seconds: int) -> int:
    """In how many seconds, of a poll that waits: few different numbers."""
    return min(LOOK_SECONDS_MAX, 1 << max(1, waited_seconds).bit_length() - 1)


def _failed(write: TaskWrite, rules: ITaskRules, asked: Asked) -> None:
    """An open poll has failed; the next one is due as it was, or, of a robots.txt, as its period says now."""
    task = asked.poll.task
    if asked.gone and task.spec.kind == ROBOTS:
        remove_task(write, task.id)
        return
    judged = _judged(write, rules, task, asked)
    if judged.state is not TaskState.ACTIVE:
        judged = attrs.evolve(judged, due_time=None)
    elif judged.when != task.when:
        begun = asked.poll.asked_time or write.now
        judged = attrs.evolve(judged, due_time=rules.next_due(judged.when, task.id, begun, begun, False))
    _save_state(write, judged)
    sql = "UPDATE tasks SET asked_time = NULL, asked_order = 0, look_time = NULL WHERE id = ?"
    write.txn.execute(sql, [task.id])


def _save_state(write: TaskWrite, task: Task) -> None:
    """What a poll has left a task as."""
    values = dict(zip(TASKS.columns, task_values(task), strict=True))
    assignments = ", ".join(f"{name} = ?" for name in _STATE)
    write.txn.execute(f"UPDATE tasks SET {assignments} WHERE id = ?", [*(values[each] for each in _STATE), task.id])


def _judged(write: TaskWrite, rules: ITaskRules, task: Task, asked: Asked) -> Task:
    """The task, as its last poll leaves it; what has waited for a robots.txt goes on."""
    task = _told(task, asked, write.now)
    if task.spec.kind == ROBOTS and asked.fault:
        allow = known_so_far(write, task.id)
        if asked.code:
            allow = robots_known(write, rules, task.id, "", rules.robots_in_place(asked.code), asked.code)
        task = settled(task, allow)
        if asked.code and allow == "all":
            task = _succeeded(task, write.now, f"no robots.txt, all may be fetched: {asked.fault}")
    return task


def _root(url: str) -> str:
    try:
        return root_of(url)
    except ValueError:
        return ""


def _move(write: TaskWrite, task: Task, url: str) -> None:
    """From now on it polls this URL."""
    before = task.spec.args[0]
    values = [write_list((url, *task.spec.args[1:])), f"It has moved: {before} to {url}", before, task.id]
    sql = "UPDATE tasks SET args = ?, message = ?, moved_from = ?, pid = 0, urlkey = NULL, seen = 0 WHERE id = ?"
    write.txn.execute(sql, values)


def _next(txn: Txn, rules: ITaskRules, task: Task, now: int) -> int | None:
    due = task.due_time if task.due_time is not None else now
    try:
        return not_skipped(txn, rules, task, rules.next_due(task.when, task.id, now, due, task.started_time is None))
    except ValueError:
        return None


def not_skipped(txn: Txn, rules: ITaskRules, task: Task, due: int) -> int:
    """When a poll that is due then takes place: of a feed whose period follows from its polls not in the hours, and
    not on the days, that it does not wish."""
    if not task.auto:
        return due
    feed = _feed_record(txn, task)
    return rules.next_poll(due, feed.get("skip_hours", ()), feed.get("skip_days", ()))


def _feed_record(txn: Txn, task: Task) -> dict[str, Any]:
    """What the feed of a task says of itself (:class:`lcc.model.feeds.FeedInfo`)."""
    return dict(json.loads(txn.value("SELECT record FROM feeds WHERE task = ?", [task.id]) or "{}"))


def _told(task: Task, asked: Asked, now: int) -> Task:
    """The task, as its last poll leaves it."""
    if asked.unchanged:
        if task.last_state is JobState.PERMANENT and task.since_time is not None:
            return task  # no worker can read what is there: it fails until that changes
        task = _succeeded(task, now, asked.note)
    elif asked.fault:
        task = attrs.evolve(
            task,
            ended_time=now,
            last_state=JobState.PERMANENT if asked.gone else JobState.TEMPORARY,
            since_time=now if task.since_time is None else task.since_time,
            failures=task.failures + 1,
            message=asked.fault,
            state=TaskState.SUSPENDED if asked.gone else task.state,
        )
    return task


def _succeeded(task: Task, now: int, message: str = "") -> Task:
    return attrs.evolve(
        task, ended_time=now, last_state=JobState.COMPLETED, since_time=None, failures=0, message=message
    )


def after_poll(
    txn: Txn, rules: ITaskRules, task: Task, history: str, news: bool, interval_seconds: int, max_age: int
) -> tuple[str, Task]:
    """History and task after a poll that has found this: the period follows from it, if it may.

    :param max_age: as the server said; 0: it did not.
    """
    if not task.auto or interval_seconds <= 0:
        return history, task
    asked = max(_feed_record(txn, task).get("ttl_seconds") or 0, max_age)
    bounds = task.least_seconds, task.most_seconds
    history, every = rules.next_period(history, news, interval_seconds, task.when.every_seconds, *bounds, asked)
    return history, attrs.evolve(task, when=attrs.evolve(task.when, every_seconds=every))
