"""BOT, the robot (seed 002, section 8).

What it owns
    Nothing.  The files that it writes are the BOT-M's attempts.  While it is connected, and until all its fetches
    have ended, it holds a lock in the content folder: if it hangs when the BOT-M dies, the next BOT-M sees that it
    may still be fetching.

What it does
    It connects to its BOT-M, says how much it fetches at once and whose content folder it writes to, and takes
    orders: a URL, the roots in which redirects must stay, the attempt's file, a lease.  The scheme of the URL chooses
    the fetcher, which writes the content through a sink that hashes it; the robot reports how it ended, with size,
    md5 and all that the server said.

    An order that comes late, because something stood still, is begun only after a look whether the BOT-M is still
    there.

Runs
    The orders of one provider are carried out one after the other.  What the queue manager would look at between two
    of them is looked at here: hours, bandwidth (what was fetched is paid for with time before the next one begins),
    the interval from start to start, whether the site can be reached and does not ask to be left alone, whether the
    rest was recalled, whether the lease is long enough for one more fetch.  If not, the rest is handed back,
    untouched; bandwidth and interval are waited for up to :data:`~lcc.roles.bot.run.PAY_SECONDS_MAX`.  Answers
    gather for a moment, and go together.

What it promises
    Never more fetches at once than its concurrency, never two at once of one provider; what comes beyond waits,
    within bounds.  Each order is answered once, by the connection that it came by.  No fetch goes on after its lease.
    None begins when it is too late for it (``start_seconds``: its hours are over).

Failures
    *The BOT-M is gone*: all fetches end at once, their connections to web servers are closed and what they wrote
    is removed, because the BOT-M gives these orders to others; only then does it connect again.  *The fetcher
    raises something unexpected*: a result ``robot-error``, a log entry with the traceback, and the robot goes on.
    *The fetcher does not end when it is told to*: a second later it is left alone, and the robot goes on without
    it.  *The disk fails*: a result ``store-failed``.  *This process is killed*: the BOT-M sees the connection
    close and gives its orders to others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from lcc.config.intake import RUN_ORDERS_MAX
from lcc.domain.fetches.debts import Debts
from lcc.domain.fetches.results import holds_provider
from lcc.errors import FetchError, StreamError
from lcc.interfaces import IAttemptFile, IFetcher, IFetchingNote
from lcc.protocols.flat import Flat, Vocabulary
from lcc.protocols.hello import KNOWS_BATCHES, KNOWS_INTERVAL, Hello, Ping, Ready
from lcc.protocols.work import Capacity, Fetch, Recall
from lcc.roles.bot.closing import close_all
from lcc.roles.bot.counters import FetchCounters
from lcc.roles.bot.job import Job
from lcc.roles.bot.redirects import Redirects
from lcc.roles.bot.run import Run
from lcc.roles.peer import PeerFactory
from lcc.roles.upstream import Upstream

_log = Logger()

FROM_BOTM = Vocabulary(Fetch, Recall, Ping, often=[Fetch])
SWEEP_SECONDS = 1.0
STILL_SECONDS = 3.0
"""What is later than this shows that this process, or what is before it, stood still."""
LOOK_SECONDS = 0.5
"""For so long nothing is begun then: whether the BOT-M is still there is learnt meanwhile."""
WAITING_MAX = 1024
"""Orders beyond the concurrency that are taken from a BOT-M that sends too many."""
TOGETHER_MIN = 4
TOGETHER_SECONDS = 0.002
"""Where the robot fetches from more than a few at a time, their next fetches begin together, this much later."""
ANSWERS_TOGETHER = 8
ANSWER_SECONDS = 0.005
"""So many answers of one provider are sent together, but none later than this; the last one of a run at once."""


class Robot:
    """The engine of a robot.

    :param concurrency: fetches at once.
    :param fetchers: by URL scheme.
    :param sinks: makes the sink for an attempt; raises OSError for a name that is none.
    :param run: names this run of the process; never used again.
    :param folder: path of the content folder, for display; empty: nothing is told of it.
    :param owner: gives the run of the BOT-M that has opened this folder.
    :param deadline_seconds: a fetch may take so long.
    :param note: where it says that it may be fetching; None: nowhere.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        clock: IReactorTime,
        fetchers: Mapping[str, IFetcher],
        sinks: Callable[[str], IAttemptFile],
        run: str,
        folder: str = "",
        owner: Callable[[], str] = str,
        deadline_seconds: float = 0.0,
        note: IFetchingNote | None = None,
    ) -> None:
        orders_max = concurrency + max(WAITING_MAX, concurrency * RUN_ORDERS_MAX)
        self._hello = Hello(
            role="bot",
            name=name,
            capacity=concurrency,
            orders_max=orders_max,
            run=run,
            folder=folder,
            knows=f"{KNOWS_INTERVAL} {KNOWS_BATCHES}",
        )
        self._owner = owner
        self._concurrency = concurrency
        self._deadline = deadline_seconds
        self._note = note
        self._noted = self._note_failed = False
        self._clock = clock
        self._fetchers = fetchers
        self._sinks = sinks
        self._redirects = Redirects()
        self.counters = FetchCounters()
        self._link: Upstream | None = None
        self._runs: dict[int, Run] = {}
        self._queue: deque[Run] = deque()
        self._debts = Debts()
        self._places = concurrency
        self._waiting = 0
        self._orders_max = orders_max
        self._ready: list[Run] = []
        self._ready_call: IDelayedCall | None = None
        self._answers: list[str] = []
        self._answer_call: IDelayedCall | None = None
        self.paused = False
        """An operator has it take no new orders."""
        self._starting = False
        self._holding = False
        self._sweep_due = 0.0
        self._sweep_call: IDelayedCall | None = None

    # What the service needs.

    def upstream_factory(self, good_hello: Callable[[], None]) -> PeerFactory:
        """For the connection to the BOT-M."""
        botm = frozenset(["botm"])
        return PeerFactory(lambda: Upstream(self, self._clock, self.hello(), botm, FROM_BOTM, good_hello))

    def end_fetches(self) -> None:
        """End all fetches at once; nothing is reported of them."""
        self._answers = []
        self._send_answers()
        self._ready = []
        if self._ready_call is not None:
            self._ready_call.cancel()
            self._ready_call = None
        self._waiting = 0
        runs = list(self._runs.values())
        for run in runs:
            run.waiting.clear()
        for run in runs:
            if run.job is None:
                self._end_run(run)
            else:
                run.job.end(FetchError("robot-error", "the robot lost its BOT-M"))
        self._stop_sweeping()
        self._holding = False
        if self._runs:
            self._sweep_in(SWEEP_SECONDS)  # some take their time

    def close(self) -> Deferred[None]:
        """End all fetches and close all connections to web servers."""
        self._link = None
        self.end_fetches()
        self._stop_sweeping()
        self._note_end()
        return close_all(self._fetchers, self._clock)

    @property
    def running(self) -> int:
        """Fetches that are going on."""
        return sum(run.job is not None for run in self._runs.values())

    def pause(self) -> None:
        """Take no new orders until :meth:`resume`; those that are here are carried out."""
        self._set_paused(True)

    def resume(self) -> None:
        """Take orders again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        if self.paused != paused:
            self.paused = paused
            if self._link is not None:
                self._link.say(self._capacity())

    def _capacity(self) -> Capacity:
        return Capacity(0, paused=self._hello.name or "robot") if self.paused else Capacity(self._concurrency)

    @property
    def jobs(self) -> tuple[list[Job], list[Job]]:
        """What is being fetched, and what waits for that."""
        runs = self._runs.values()
        return [run.job for run in runs if run.job is not None], [job for run in runs for job in run.waiting]

    @property
    def name(self) -> str:
        """What it calls itself."""
        return self._hello.name

    def clock_seconds(self) -> float:
        """The clock that leases are measured on."""
        return self._clock.seconds()

    @property
    def connected(self) -> bool:
        """The BOT-M is there."""
        return self._link is not None

    @property
    def concurrency(self) -> int:
        """Fetches at once."""
        return self._concurrency

    # The BOT-M.

    def hello(self) -> Hello:
        """What this robot says of itself now, on a new connection: the BOT-M has opened its folder before that."""
        return attrs.evolve(self._hello, owner=self._owner())

    def upstream_ready(self, link: Upstream) -> None:
        """The BOT-M is there."""
        self._note_fetching(link)
        link.say(Ready())
        self._link = link
        if self.paused:
            link.say(self._capacity())
        _log.info("Connected to {peer}", peer=link.describe())

    def upstream_messages(self, link: Upstream, messages: list[Flat]) -> None:
        """Carry out these orders.

        :raises StreamError: far too many at once.
        """
        for message in messages:
            if type(message) is Fetch:
                self._order(link, message)
            elif type(message) is Recall:
                self._recall(link, message.pid)

    def upstream_resumed(self, link: Upstream) -> None:
        """Nothing waits for that: what is sent up is bounded by the orders that are here."""

    def _order(self, link: Upstream, fetch: Fetch) -> None:
        if link is not self._link:
            return
        run = self._runs.get(fetch.pid)
        if run is None:
            paid_at = self._debts.take(fetch.pid) if fetch.interval_ms or fetch.rate else 0.0
            run = self._runs[fetch.pid] = Run(fetch.pid, paid_at)
            self._queue.append(run)
        elif run.job is not None and run.job.fetch.id == fetch.id and run.job.link is link:
            return
        if self._waiting >= self._orders_max:
            raise StreamError("limit", f"more than {self._orders_max} orders at once")
        self._waiting += 1
        run.add(Job(fetch, link, self._clock))
        if self._clock.seconds() - link.sent_seconds(fetch.sent_ms) > STILL_SECONDS:
            self._hold()
        self._start()

    def _recall(self, link: Upstream, pid: int) -> None:
        run = self._runs.get(pid)
        if run is not None and link is self._link:
            self._hand_back_all(run)

    def upstream_lost(self, link: Upstream) -> None:
        """The BOT-M is gone."""
        if link is not self._link:
            return
        self._link = None
        count = self.running + self._waiting
        self.end_fetches()
        if not self._runs:  # else when the last one has ended
            self._note_end()
        _log.info("Lost {peer}; ended {count} fetches", peer=link.describe(), count=count)

    def _note_fetching(self, link: Upstream) -> None:
        """Lock, unless the folder is known to be another BOT-M's, who would wait for nothing; what fails is tried
        again."""
        if self._note is None or self._noted:
            return
        owner, botm = self._owner(), link.peer_hello
        if owner and botm is not None and botm.run and botm.run != owner:
            return
        try:
            self._note.begin_fetching(self._hello.run)
            self._noted = True
        except FileNotFoundError:
            pass  # a BOT-M of an older version has not made the folder
        except OSError as error:
            if not self._note_failed:
                self._note_failed = True
                _log.warn(
                    "Cannot lock a file in the content folder, so that if this robot hangs a new BOT-M will not see "
                    "it: {error}",
                    error=str(error),
                )

    def _note_end(self) -> None:
        if self._note is not None and self._noted:
            self._noted = False
            self._note.end_fetching(self._hello.run)

    # Inside.

    def _start(self) -> None:
        """Begin what can be begun."""
        if self._starting:
            return  # a fetch ended before its start returned: the loop below goes on
        self._starting = True
        try:
            while self._queue and self._places > 0 and not self._must_look():
                run = self._queue.popleft()
                if not run.has_place and self._runs.get(run.pid) is run:
                    run.has_place = True
                    self._places -= 1
                    self._go_on(run)
        finally:
            self._starting = False
        if self._sweep_call is None and self._runs:
            self._sweep_in(SWEEP_SECONDS)

    def _go_on(self, run: Run) -> None:
        """Begin the provider's next fetch, if it has a place and none is going on; hand back what must not begin."""
        if run.going or not run.has_place:
            return
        run.going = True
        try:
            while run.job is None and run.call is None:
                if not run.waiting:
                    self._end_run(run)
                    return
                if self._must_look():
                    self._queue.appendleft(run)
                    self._leave_place(run)
                    return
                self._begin_next(run)
        finally:
            run.going = False

    def _begin_next(self, run: Run) -> None:
        now = self._clock.seconds()
        job = run.waiting[0]
        if run.hands_back(job, self._deadline, now):
            self._hand_back(run, job)
            return
        seconds = run.unpaid_seconds(now)
        if seconds > 0:
            run.call = self._clock.callLater(seconds, self._paid, run)
            return
        run.waiting.popleft()
        self._waiting -= 1
        run.job = job
        fetch = job.fetch
        fetcher = self._fetchers.get(fetch.url.partition(":")[0])
        job.start(fetcher, self._sinks, self._redirects.rule).addCallback(self._ended, job, run)

    def _paid(self, run: Run) -> None:
        run.call = None
        self._go_on(run)

    def _ended(self, answer: str, job: Job, run: Run) -> None:
        if run.job is not job:
            return  # it was abandoned
        run.fetched(job, self._clock.seconds())
        self.counters.ended(job.code, job.unchanged, job.wire_bytes, job.stored_bytes, job.seconds)
        self._answer(run, job, answer)
        if job.code and (job.retry_seconds or holds_provider(job.code)):
            self._hand_back_all(run)
        if self._concurrency - self._places < TOGETHER_MIN or not run.waiting:
            self._go_on(run)
            self._start()
        else:
            self._go_on_soon(run)

    def _go_on_soon(self, run: Run) -> None:
        """With many at a time their next fetches begin together: a page costs less where many are one event."""
        self._ready.append(run)
        if self._ready_call is None:
            self._ready_call = self._clock.callLater(TOGETHER_SECONDS, self._go_on_together)

    def _go_on_together(self) -> None:
        self._ready_call = None
        ready, self._ready = self._ready, []
        for run in ready:
            self._go_on(run)
        self._start()

    def _hand_back_all(self, run: Run) -> None:
        """What is not begun."""
        for job in list(run.waiting):
            self._hand_back(run, job)
        if run.job is None:
            self._end_run(run)

    def _hand_back(self, run: Run, job: Job) -> None:
        run.waiting.remove(job)
        self._waiting -= 1
        run.ended += 1
        self._answer(run, job, job.never_started(run.unpaid_seconds(self._clock.seconds())))

    def _end_run(self, run: Run) -> None:
        run.cancel_call()
        if self._runs.get(run.pid) is run:
            del self._runs[run.pid]
            if run.paid_at:
                self._debts.keep(run.pid, run.paid_at, self._clock.seconds())
        self._leave_place(run)

    def _leave_place(self, run: Run) -> None:
        if run.has_place:
            run.has_place = False
            self._places += 1

    # Answers.

    def _answer(self, run: Run, job: Job, answer: str) -> None:
        """Answers gather for a moment: what a message costs is mostly the event, here and at both hops above."""
        if job.link is not self._link:
            return
        self._answers.append(answer)
        if not run.waiting or run.ended % ANSWERS_TOGETHER == 0:
            self._send_answers()
        elif self._answer_call is None:
            self._answer_call = self._clock.callLater(ANSWER_SECONDS, self._send_answers)

    def _send_answers(self) -> None:
        if self._answer_call is not None:
            if self._answer_call.active():
                self._answer_call.cancel()
            self._answer_call = None
        answers, self._answers = self._answers, []
        if self._link is not None and answers:
            self._link.stream.send("".join(answers))

    # What stands still.

    def _must_look(self) -> bool:
        """Whether nothing may be begun now, because something stood still."""
        if self._sweep_call is not None and self._is_late():
            self._hold()
        return self._holding

    def _hold(self) -> None:
        """Begin nothing for a moment.  An order that was read late, or waited here while this process stood still,
        may be one of a BOT-M that has died since and given it to another; then the end of its connection is read
        within that moment."""
        if not self._holding:
            _log.info("Orders are late, or this process was stalled: checking that the BOT-M is still there")
            self._holding = True
            self._sweep_in(LOOK_SECONDS)

    def _is_late(self) -> bool:
        return self._clock.seconds() - self._sweep_due > STILL_SECONDS

    def _sweep_in(self, seconds: float) -> None:
        if self._sweep_call is not None and self._sweep_call.active():
            self._sweep_call.cancel()
        self._sweep_due = self._clock.seconds() + seconds
        self._sweep_call = self._clock.callLater(seconds, self._sweep)

    def _stop_sweeping(self) -> None:
        if self._sweep_call is not None:
            self._sweep_call.cancel()
            self._sweep_call = None

    def _sweep(self) -> None:
        self._sweep_call = None
        self._holding = False
        if self._link is not None:
            self._note_fetching(self._link)
        if self._is_late():
            self._hold()
        now = self._clock.seconds()
        for run in list(self._runs.values()):
            for job in [job for job in run.waiting if job.is_too_late(now)]:
                self._hand_back(run, job)
            if run.job is None:
                if not run.waiting:
                    self._end_run(run)
                continue
            job = run.job
            if job.told_to_end:
                self.counters.abandoned += 1
                self._ended(job.abandon(), job, run)
            elif now >= job.lease_end:
                job.end(FetchError("deadline", "the order's time was over"))
        if self._link is None and not self._runs:
            self._note_end()
        self._start()
