"""Bugs, planted one at a time into a copy of the LCC: a simulator that does not find them proves nothing.

``python -m tests.simulation.planted`` (``make sim-proof``) plants each, runs seeds until one breaks a promise, and
prints the table of doc/reliability.md; ``--only NAME`` does so for one of them.  A seed counts only if it breaks
nothing in the code as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs

from .run import TASKS

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 5000


@attrs.frozen
class Bug:
    """A bug.

    :ivar path: of the file, below the root.
    :ivar before, after: what is replaced; it stands there exactly once.
    :ivar about: which hole of the design it opens again, or what it forgets.
    :ivar tasks: it is looked for in worlds with a scheduler.
    """

    name: str
    about: str
    path: str
    before: str
    after: str
    tasks: bool = False

    def plant(self, root: Path) -> None:
        """Put it into a copy of the tree.

        :raises ValueError: the code is another one now.
        """
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        if text.count(self.before) != 1:
            raise ValueError(f"{self.name}: what it replaces stands {text.count(self.before)} times in {self.path}")
        file.write_text(text.replace(self.before, self.after), encoding="utf-8")


BUGS = [
    Bug(
        "identity",
        "hole 1: the key of a URL leaves the mime type out, so that views overwrite each other",
        "lcc/domain/keys.py",
        "blake2b(mimetype.encode(), digest_size=4)",
        'blake2b(b"text/html", digest_size=4)',
    ),
    Bug(
        "generation-ignored",
        "hole 2: a finished fetch removes its row, whatever was told meanwhile",
        "lcc/domain/outcome.py",
        "return Outcome.STORE if generation == row_generation else Outcome.STORE_AGAIN",
        "return Outcome.STORE",
    ),
    Bug(
        "order-of-retries",
        "hole 3: rows that are tried again are never due",
        "lcc/roles/qm/maintenance/retries.py",
        "if self._stepped or now >= min(self._next, self._noted):",
        "if self._stepped and now < 0:",
    ),
    Bug(
        "replay-skips-one",
        "hole 4: a set that is delivered again is gone on with one element too late",
        "lcc/storage/queue/absorb.py",
        "skipped = max(0, done - piece.first_index)",
        "skipped = max(0, done - piece.first_index + (1 if done else 0))",
    ),
    Bug(
        "numbers-reused",
        "hole 4: the counter of set numbers is not on the disk before numbers are used",
        "lcc/storage/disk/durable.py",
        '        write_durably(self._path, b"%d\\n" % upto, self._disk)\n        self._reserved = upto',
        "        self._reserved = upto",
    ),
    Bug(
        "older-than-cached",
        "hole 5: an older set overwrites what a newer one has told, once that is cached",
        "lcc/domain/absorb.py",
        "if cached is not None and connseq < cached.connseq:",
        "if cached is not None and connseq < 0:",
    ),
    Bug(
        "older-than-queued",
        "hole 5: an older set overwrites what a newer one has queued",
        "lcc/domain/absorb.py",
        "if queued is not None and connseq < queued.connseq:",
        "if queued is not None and connseq < 0:",
    ),
    Bug(
        "older-than-full-set",
        "hole 5: what a newer full set did not name is brought back by an older set",
        "lcc/storage/queue/absorb.py",
        "stats.fullconnseq = max(stats.fullconnseq, whole.header.connseq)",
        "pass",
    ),
    Bug(
        "order-of-connections",
        "hole 5: sets are ordered by their connections, not by when they began to be told",
        "lcc/storage/providers/sessions.py",
        "kept = pid not in drawing and start.held > 0 and drawn.get(pid, 0) == start.held >= least[pid]",
        "kept = start.held > 0",
    ),
    Bug(
        "connections-reused",
        "hole 5: two connections of a provider get the same order number",
        "lcc/storage/providers/sessions.py",
        "least + ORDER_JUMP) + 1\n",
        "least + ORDER_JUMP) + (1 if self.last % 2 == 0 else 0)\n",
    ),
    Bug(
        "names-reused",
        "hole 6: the name of a file is given to another one after a restart",
        "lcc/services/botm.py",
        "return DurableCounter(path, settings.names_block, environment.disk)",
        "DurableCounter(path, settings.names_block, environment.disk)\n"
        "            return DurableCounter(path.with_name('none' + environment.token()), 1, environment.disk)",
    ),
    Bug(
        "length-off-by-one",
        "P7: a robot says that a file has a byte more than it has",
        "lcc/roles/bot/job.py",
        "return answers.stored(self.fetch, fetched, sink.size_bytes,",
        "return answers.stored(self.fetch, fetched, sink.size_bytes + 1,",
    ),
    Bug(
        "cut-set-applied",
        "hole 7: a set that is cut off is taken as if it were complete",
        "lcc/roles/uns/session.py",
        "    def stream_closed(self, reason: Failure) -> None:\n        self._closed = True\n",
        "    def stream_closed(self, reason: Failure) -> None:\n        self._closed = True\n"
        "        if self._set is not None and self._set.writer is not None and not self._deciding:\n"
        "            self._start(self._end(self._set))\n",
    ),
    Bug(
        "unchanged-not-seen",
        "hole 7: a full set deletes what it names, if that is unchanged",
        "lcc/storage/queue/batch.py",
        "            if seen is not None and not (notice.delete and action is Action.KNOWN):\n",
        "            if seen is not None and action is not Action.CONFIRM:\n",
    ),
    Bug(
        "mass-deletion-not-held",
        "P5: a full set that names nothing deletes everything, and nobody has said that this is meant",
        "lcc/domain/deletions.py",
        "return deletions > floor and deletions > share * cached",
        "return False",
    ),
    Bug(
        "held-and-forgotten",
        "P5: what is held is not noted, so that nobody can say that it is meant",
        "lcc/storage/queue/sweep.py",
        "            save_held(txn, held)",
        "            pass",
    ),
    Bug(
        "release-takes-what-is-newer",
        "P5: what is held and then released takes what was told since",
        "lcc/storage/queue/sweep.py",
        "if standing.told_number <= sweep.connseq:",
        "if standing.told_number <= standing.connseq:",
    ),
    Bug(
        "deletion-not-a-change",
        "hole 8: a deletion gets no new number, so that nobody hears of it",
        "lcc/storage/queue/row_cache.py",
        '            cached.change = self.write.next("change")\n',
        "",
    ),
    Bug(
        "sweep-not-a-change",
        "hole 8: what a full set deletes keeps its old number",
        "lcc/storage/queue/sweep.py",
        'row.update(change_number=write.next("change"))',
        "row.update(change_number=1)",
    ),
    Bug(
        "change-without-a-number",
        "hole 8: content that is fetched again gets no new number",
        "lcc/storage/queue/record.py",
        'cached["change_number"] = work.write.next("change")',
        'cached["change_number"] = cached["change_number"] or work.write.next("change")',
    ),
    Bug(
        "told-length-only",
        "hole 9: what is told is compared by its length alone",
        "lcc/domain/absorb.py",
        "    return told == (notice.md5, notice.length, notice.mtime)",
        "    return told[1] == notice.length",
    ),
    Bug(
        "description-dropped",
        "hole 9: what is told of unchanged content, besides itself, is accepted and forgotten",
        "lcc/domain/absorb.py",
        "    return Action.UPDATE if is_described_anew(notice, cached) else Action.CONFIRM",
        "    return Action.CONFIRM",
    ),
    Bug(
        "description-not-a-change",
        "hole 9: another browse URL or subtype of unchanged content keeps the old number",
        "lcc/storage/queue/row_cache.py",
        'CACHE.upsert(txn, described, (*DESCRIPTION, "change_number"))',
        "CACHE.upsert(txn, described, DESCRIPTION)",
    ),
    Bug(
        "hours-are-a-change",
        "hole 9: other hours alone get a new number",
        "lcc/storage/queue/row_cache.py",
        "            restricted.append(self._described(entry, 0))",
        '            described.append(self._described(entry, self.write.next("change")))',
    ),
    Bug(
        "moved-not-fetched",
        "hole 9: unchanged content is not fetched from its new fetch URL",
        "lcc/domain/absorb.py",
        "    if not is_unchanged(notice, cached) or is_elsewhere(notice, cached):",
        "    if not is_unchanged(notice, cached):",
    ),
    Bug(
        "unchanged-grows-old",
        "hole 10: what is told again, unchanged, is as old as before",
        "lcc/storage/queue/row_cache.py",
        '                changes += ", confirmed_time = ?"\n                values.append(self.write.now)\n',
        "                pass\n",
    ),
    Bug(
        "unchanged-is-a-change",
        "hole 10: what is told again, unchanged, gets a new number",
        "lcc/storage/queue/row_cache.py",
        'changes += ", confirmed_time = ?"',
        "changes += f\", confirmed_time = ?, change_number = {self.write.next('change')}\"",
    ),
    Bug(
        "answer-before-commit",
        "P1: the provider is answered as soon as the set is sent to the queue manager",
        "lcc/roles/uns/forwarder.py",
        "        self._peer.say(EndSet(entry.count))\n",
        "        self._peer.say(EndSet(entry.count))\n        delivery.reply(Verdict(0))\n",
    ),
    Bug(
        "set-not-synced",
        "P1: a spooled set is answered before it is on the disk",
        "lcc/storage/disk/spool.py",
        "            self.disk.sync_file(path)\n",
        "",
    ),
    Bug(
        "folder-not-synced",
        "P1: a spooled set is answered before its name is on the disk",
        "lcc/storage/disk/spool.py",
        "            self.disk.sync_folder(self.folder)\n",
        "            pass\n",
    ),
    Bug(
        "sent-is-done",
        "P2: what was sent to a queue manager that is gone is not sent to the next one",
        "lcc/roles/uns/forwarder.py",
        "        self._unsent.extendleft(reversed(self._outstanding))\n",
        "",
    ),
    Bug(
        "row-lost-at-lease-end",
        "P2: a row whose order was lost is not given out again",
        "lcc/roles/qm/orders/dispatcher.py",
        "        self._scheduler.lost(order.pid, order.key, *order.place, self._wall_clock())\n\n    def _forget",
        "\n    def _forget",
    ),
    Bug(
        "damaged-set-applied",
        "P3: a set file that has rotted in the spool, or lost its end, is passed on as it is",
        "lcc/storage/disk/set_file.py",
        "    if size != HEADER_BYTES + body_bytes:\n"
        "        lost = header.pid if header.answered and header.said is None else accepted_pid(path.name)\n"
        '        raise SpoolDamaged(f"it has {size} bytes instead of {HEADER_BYTES + body_bytes}", lost)\n'
        "    return SpooledSet(path, header, count, body_bytes, check, checked=False)",
        "    return SpooledSet(path, header, count, size - HEADER_BYTES, check, checked=True)",
    ),
    Bug(
        "deletion-misses-views",
        "P5: a deletion of all views leaves what is queued",
        "lcc/storage/queue/batch.py",
        "            elif action is not Action.OLDER:\n                self._do(",
        "            elif action is not Action.OLDER and rows.queue.get(view) is None:\n                self._do(",
    ),
    Bug(
        "leases-forgotten",
        "P6: a new queue manager does not wait for machines that may still be fetching",
        "lcc/roles/qm/orders/leases.py",
        "            if state.lease_until:\n",
        "            if state.lease_until < 0:\n",
    ),
    Bug(
        "running-not-told",
        "P6: a BOT-M that connects again does not say what is running",
        "lcc/roles/botm/engine.py",
        "            link.say(Running(fetch.id, fetch.pid, fetch.key, fetch.generation, left))\n",
        "",
    ),
    Bug(
        "connection-unnamed",
        "P6: what is said to a machine behind a central BOT-M is for whichever connection of it there is",
        "lcc/roles/qm/peers/central.py",
        "addressed(message, self.hello.machine, self.hello.session)",
        "addressed(message, self.hello.machine)",
    ),
    Bug(
        "dead-robot-at-once",
        "P6: a lost robot's fetches go to others at once",
        "lcc/roles/botm/dispatcher.py",
        "        if robot.left and runs:\n            self._release_soon(runs)\n        elif runs:\n"
        "            self._held_back.setdefault(robot.run, []).extend(runs)\n",
        "        if runs:\n            self._release(runs)\n",
    ),
    Bug(
        "reset-is-death",
        "P6: a robot whose connection was reset counts as dead",
        "lcc/roles/botm/robots.py",
        "        return reason.check(ConnectionDone) is not None\n",
        "        return reason.check(ConnectionAborted) is None\n",
    ),
    Bug(
        "run-to-two-robots",
        "P6: what is appended to a run that a robot has goes to any robot",
        "lcc/roles/botm/dispatcher.py",
        "                self._give(run, run.robot)\n",
        "                self._give(run, self.pool.choose(run.pid + 1))\n",
    ),
    Bug(
        "run-side-by-side",
        "P6: a robot begins the next fetch of a run while one is going on",
        "lcc/roles/bot/engine.py",
        "while run.job is None and run.call is None:",
        "while run.call is None:",
    ),
    Bug(
        "run-freed-by-one",
        "P6: a provider is free when the first order of its run is answered",
        "lcc/roles/qm/schedule/work.py",
        "        if self.busy:\n            self.busy -= 1\n",
        "        if self.busy:\n            self.busy = 0\n",
    ),
    Bug(
        "handed-back-is-lost",
        "P2: a row that is handed back is not given out again",
        "lcc/roles/qm/orders/dispatcher.py",
        "    self._scheduler.lost(order.pid, order.key, *order.place)\n        self._recorder",
        "    self._scheduler.finished(order.pid, order.key, 0, 0, self._wall_clock())\n        self._recorder",
    ),
    Bug(
        "content-folder-not-synced",
        "P7: the content folder is not on the disk when files, and the counter that tells of their loss, are in it",
        "lcc/storage/disk/content_folder.py",
        "make_folder_durably(attempts, self._disk, _FOLDER_MODE)",
        "self._disk.make_folder(attempts, _FOLDER_MODE)",
    ),
    Bug(
        "current-file-removed",
        "P7: a result that comes twice removes its own file",
        "lcc/storage/queue/result_rows.py",
        "        elif is_current(cached, result):\n            return\n        self.write.delete_file",
        "        self.write.delete_file",
    ),
    Bug(
        "not-verified",
        "P7: after a power cut nothing is verified",
        "lcc/storage/disk/content_sync.py",
        "    if same_boot:\n        return before",
        "    if before.state == RUNNING:\n        return SyncMark(names_upto, RUNNING, boot)",
    ),
    Bug(
        "mark-before-sync",
        "P7: files count as synced that are not",
        "lcc/storage/disk/content_sync.py",
        "        self._sync_all()\n        if self._mark.state == RUNNING and upto > self._mark.upto:",
        "        if self._mark.state == RUNNING and upto > self._mark.upto:",
    ),
    Bug(
        "short-body",
        "P7: a body that ends early is taken as whole",
        "lcc/fetchers/http_protocol.py",
        "            whole = self._until_close and not self._in_head and reason.check(ConnectionDone)",
        "            whole = not self._in_head and reason.check(ConnectionDone)",
    ),
    Bug(
        "error-lost",
        "P8: a final error is not kept for the provider",
        "lcc/storage/queue/record.py",
        "            work.failed(row, result.code, result.detail)\n            if outcome is Outcome.DELETE",
        "            if outcome is Outcome.DELETE",
    ),
    Bug(
        "errors-cleared-unseen",
        "P8: an accepted set clears errors that were never shown",
        "lcc/storage/queue/set_positions.py",
        "    cleared = min(header.errors_upto, stats.errseq)",
        "    cleared = stats.errseq",
    ),
    Bug(
        "books-wrong",
        "P8: the size of content that is replaced is not taken off the books",
        "lcc/storage/queue/record.py",
        'stats.space_used += result.size_bytes - (0 if appears else cached["len"] or 0)',
        "stats.space_used += result.size_bytes",
    ),
    Bug(
        "damage-untold",
        "P9: a damaged set of the spool is set aside, and nobody is told",
        "lcc/storage/disk/spool.py",
        "                if error.lost_pid is not None:\n                    self.damage.add(error.lost_pid)",
        "                pass",
    ),
    Bug(
        "slot-off-by-one",
        "P11: a provider's hours open a slot too early",
        "lcc/domain/timeslots.py",
        "return since, end, number % self.slots",
        "return since, end, (number + 1) % self.slots",
    ),
    Bug(
        "interval-not-kept-in-a-run",
        "P11: a robot does not wait between two fetches of a run",
        "lcc/roles/bot/run.py",
        "if fetch.interval_ms:",
        "if False:",
    ),
    Bug(
        "interval-forgotten-at-a-loss",
        "P11: the interval of a fetch whose order was lost is forgotten",
        "lcc/roles/qm/schedule/scheduler.py",
        "        if began:\n            self.costs.came(pid, 0, began)\n",
        "",
    ),
    Bug(
        "interval-of-a-lost-robot",
        "P11: the run of a lost robot goes to another one at once",
        "lcc/roles/botm/dispatcher.py",
        "run.may_have_begun(self._clock.seconds())",
        "pass",
    ),
    Bug(
        "notice-answered-early",
        "P1: a notifier's set is answered before it is on stable storage",
        "lcc/roles/uns/notifiers/connection.py",
        "hub.deliver(notifier, number, entry)\n                return",
        "hub.deliver(notifier, number, entry)\n                notifier.outcomes[number] = Verdict(0)",
    ),
    Bug(
        "notice-not-sent-again",
        "P2: what a notifier has sent, and has no answer, is not sent on the next connection",
        "lcc/roles/notifier.py",
        "self._unsent = deque(self._told.values())",
        "self._unsent = deque(self._unsent)",
    ),
    Bug(
        "notice-number-kept",
        "P5: a notifier keeps an order number on another connection, while a set with it comes through another UNS",
        "lcc/roles/uns/notifiers/connection.py",
        "held = message.held if message.held == drawn.get(pid) else 0",
        "held = message.held",
    ),
    Bug(
        "hint-revives",
        "P5: somebody's feed brings back what the site has deleted",
        "lcc/domain/words.py",
        "(not counted and self.is_the_sites)",
        "(not counted and False)",
    ),
    Bug(
        "hint-outlives-the-deletion",
        "P5: a page that a feed had named before its site did stays when the site deletes it",
        "lcc/domain/words.py",
        "self.mask &= ~_HINTS",
        "pass",
    ),
    Bug(
        "poll-is-a-page",
        "P5: a document that is only polled is recorded as a page of its provider",
        "lcc/storage/queue/record.py",
        "cached.update(connseq=connseq, source=source, words=words)\n    return",
        "cached.update(connseq=connseq, source=TOLD, words=words)\n    return",
    ),
    Bug(
        "poll-is-counted",
        "P8: a document that is only polled is on its provider's books",
        "lcc/storage/queue/record.py",
        "    if counted:\n        stats.files_used += appears",
        "    if True:\n        stats.files_used += appears",
    ),
    Bug(
        "late-ending-accepted",
        "P14: what a lost attempt reports late ends the attempt that runs now",
        "lcc/storage/tasks/endings.py",
        "if job.state is not JobState.RUNNING or job.attempt != attempt:",
        "if job.state is not JobState.RUNNING:",
        tasks=True,
    ),
    Bug(
        "ending-applied-twice",
        "P14: an ending that is reported again on the next connection is applied again",
        "lcc/storage/tasks/endings.py",
        "if job.state is not JobState.RUNNING or job.attempt != attempt:",
        "if job.attempt != attempt:",
        tasks=True,
    ),
    Bug(
        "followup-key-ignored",
        "P14: the key of a follow-up is ignored",
        "lcc/storage/tasks/effects.py",
        "        if added.key:\n",
        "        if not added.key:\n",
        tasks=True,
    ),
    Bug(
        "repeated-write-unnoticed",
        "P14: what a transaction has made whose answer was lost stays pending",
        "lcc/roles/scheduler/engine.py",
        "if self.store.repeated != self._repeated:",
        "if self.store.repeated < 0:",
        tasks=True,
    ),
    Bug(
        "resource-not-released",
        "P14: a job that has ended keeps its resource",
        "lcc/roles/scheduler/engine.py",
        "        self.ready.release(resource, result.id)\n",
        "",
        tasks=True,
    ),
    Bug(
        "resource-not-kept",
        "P13: a resource is free while a job uses it",
        "lcc/roles/scheduler/ready.py",
        "            self._users[resource] = job\n",
        "",
        tasks=True,
    ),
    Bug(
        "resource-interval-ignored",
        "P13: the interval of a resource is not kept after a job",
        "lcc/roles/scheduler/ready.py",
        "            if interval:\n                self._free_times[resource] = started_time + interval",
        "            if interval:\n                self._free_times[resource] = started_time",
        tasks=True,
    ),
    Bug(
        "orphans-lost-at-once",
        "P13: a new scheduler does not wait for the managers of its predecessor",
        "lcc/roles/scheduler/roster.py",
        "now >= self._orphaned_at + self._lease_seconds:",
        "now >= self._orphaned_at:",
        tasks=True,
    ),
    Bug(
        "lease-of-half",
        "P13: the scheduler gives a manager up after half of its lease",
        "lcc/roles/scheduler/roster.py",
        "now >= manager.heard + self._lease_seconds:",
        "now >= manager.heard + self._lease_seconds / 2:",
        tasks=True,
    ),
    Bug(
        "lease-from-the-answer",
        "P13: a manager counts its lease from when it heard the answer, not from when it sent the heartbeat",
        "lcc/roles/manager/engine.py",
        "self._heard_seconds = max(self._heard_seconds, sent)",
        "self._heard_seconds = max(self._heard_seconds, self._clock.seconds())",
        tasks=True,
    ),
    Bug(
        "cut-off-and-not-killed",
        "P13: a manager that is cut off does not kill its workers",
        "lcc/roles/manager/engine.py",
        "return self._heard_seconds + seconds - min(",
        "return self._heard_seconds + 60 * seconds - min(",
        tasks=True,
    ),
    Bug(
        "late-order-begun",
        "P13: a manager begins a job whose order was on its way for longer than the lease",
        "lcc/roles/manager/engine.py",
        "if until <= self._clock.seconds():",
        "if until < 0:",
        tasks=True,
    ),
    Bug(
        "second-open-job",
        "P13: that a task has an open job is not looked at",
        "lcc/storage/tasks/rows.py",
        "*(job.task or None, scope,",
        "*(None, scope,",
        tasks=True,
    ),
    Bug(
        "period-from-the-end",
        "P13: the period of a task is counted from the end of its last job",
        "lcc/storage/tasks/endings.py",
        "started = task.started_time if task.started_time is not None else write.now",
        "started = write.now",
        tasks=True,
    ),
    Bug(
        "wrong-clock-waited-for",
        "P2: what waits is not looked at when the wall clock was set back",
        "lcc/roles/scheduler/engine.py",
        "if self._steps_bounded < self._steps:",
        "if self._steps_bounded < 0:",
        tasks=True,
    ),
    Bug(
        "outbox-emptied-early",
        "P1: a notice is taken out of the outbox before the UNS has accepted it",
        "lcc/roles/scheduler/notices.py",
        "\n        self.link.tell(told)",
        "\n        self._answered.append(Answer(each.number))\n        self.link.tell(told)",
        tasks=True,
    ),
    Bug(
        "poll-seen-unread",
        "P15: what no worker could read is not read before its next change",
        "lcc/storage/tasks/endings.py",
        "        if result.state in (JobState.TEMPORARY, JobState.LOST):\n            read_again(write, job)\n",
        "",
        tasks=True,
    ),
    Bug(
        "unchanged-starts-a-worker",
        "P15: a poll that finds nothing new starts a worker",
        "lcc/roles/scheduler/polls.py",
        "page.change <= poll.seen or not poll.url",
        "not poll.url",
        tasks=True,
    ),
    Bug(
        "robots-not-asked",
        "what jobs notify of is fetched, whatever robots.txt says",
        "lcc/storage/tasks/robots.py",
        "found = [notice for notice in notices if rules.robots_allow(text, allow, notice.url)]",
        "found = notices",
        tasks=True,
    ),
    Bug(
        "poll-during-a-fetch",
        "P5: a poll during a fetch that began before it is forgotten",
        "lcc/domain/words.py",
        "        if self.waits:\n            return self.answer(Action.AGAIN)\n",
        "        if self.waits:\n            return self.answer(Action.OLDER)\n",
    ),
]


def copy_of_the_code(folder: Path) -> Path:
    """What is run, in a folder of its own."""
    keep = shutil.ignore_patterns("__pycache__", "dropin.cache")
    for name in ("lcc", "twisted", "tests/simulation"):
        shutil.copytree(ROOT / name, folder / name, ignore=keep)
    for name in ("tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def find(bug: Bug, first: int, seeds: int, jobs: int) -> tuple[str, str]:
    """The first seed found that breaks a promise, and which; no seed: none did, or that one breaks one without the
    bug, too."""
    with tempfile.TemporaryDirectory(prefix="lcc-planted-") as name:
        folder = copy_of_the_code(Path(name))
        bug.plant(folder)
        found = _FOUND.search(run(folder, bug, first, seeds, jobs).stdout)
    if found is None:
        return "", ""
    with tempfile.TemporaryDirectory(prefix="lcc-planted-") as name:
        folder = copy_of_the_code(Path(name))
        if sound := _FOUND.search(run(folder, bug, int(found[1].rstrip(TASKS)), 1, 1).stdout):
            return "", f"seed {found[1]} breaks a promise without it: {sound[2]}"
    return found[1], found[2]


_FOUND = re.compile(r"^seed (\d+t?): (.*)$", re.MULTILINE)


def run(folder: Path, bug: Bug, first: int, seeds: int, jobs: int) -> subprocess.CompletedProcess[str]:
    """Run seeds of a copy, until one breaks a promise."""
    command = [sys.executable, "-m", "tests.simulation", str(seeds), "--first", str(first), "--until-found"]
    command += ["--tasks"] if bug.tasks else []
    return subprocess.run(
        [*command, "--jobs", str(jobs), "--results", str(folder / "results.jsonl")],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1"),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


def main() -> int:
    """Gives the exit code: at most one is not found."""
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument("--only", action="append", help="names of bugs")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    missed = 0
    print("| bug | what it breaks | seed | what was seen |\n|---|---|---|---|")
    for bug in BUGS:
        if options.only and bug.name not in options.only:
            continue
        seed, seen = find(bug, options.first, options.seeds, options.jobs)
        missed += not seed
        seen = seen[:90].replace("|", " ")
        print(f"| {bug.name} | {bug.about} | {seed or 'none'} | {seen} |", flush=True)
    return missed > 1


if __name__ == "__main__":
    sys.exit(main())
