"""The web monitor's engine: reads the figures by the clock, judges them, and tells the pages that follow.

Owns: figures in memory, and a file with the samples of the plots and with who was ever there.  Strategy: what the
queue manager says of itself is read every few seconds (one row); queue, errors and cache are summed up less often, in
a question of its own that is asked a twentieth of the time at most.  However many pages are open, the database is
asked no more often.  Failures: an unreachable database is shown on the pages, with the last figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.defer import CancelledError, Deferred, DeferredLock, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from lcc.client.content import ContentOpener
from lcc.config import Config
from lcc.errors import StoreUnavailable
from lcc.insight.evidence import Evidence, Outcomes, outcomes
from lcc.insight.qm_state import Live, read_live
from lcc.insight.summary import Summary, summarise
from lcc.insight.verdict import Level, Trouble, Troubles, judge, sentence
from lcc.roles.accounts import Accounts, Passwords
from lcc.roles.web.discovery import Discovery
from lcc.roles.web.fetching import Fetching
from lcc.roles.web.members import Members
from lcc.roles.web.processes import Processes
from lcc.roles.web.samples import Samples
from lcc.roles.web.state_file import StateFile
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.web_users import WebUser, get_web_user, list_web_users
from lcc.storage.queue.maintenance.saved_state import saved_state
from lcc.storage.tasks.figures import TaskFigures, task_figures

_log = Logger()

SHARE = 20
"""Summing up takes at most this part of the time."""
JUDGED_SECONDS = 1000.0


@attrs.define
class Counters:
    """Counted since the start, for the console and the metrics."""

    looks: int = 0
    looks_failed: int = 0
    summaries: int = 0
    orders: int = 0


class Monitor:
    """The engine of the web monitor.

    :param tasks: where the tables of tasks are.
    :param frontier: where those of spiders are; ``push``, ``hub``: those of the push server, and of the hub of
        content users.
    :param now: seconds since 1970.
    :param disk_trouble: why the disk of a SQLite file is nearly full; empty: it is not.
    :param keep: makes what keeps these over a restart.
    :param processes: asked how they are; ``fetching``: BOT-Ms, what they fetch.
    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param in_thread: calls a function that takes long.
    :param discovery: finds the feeds that a page names.
    :param content: reads what is cached.
    :ivar figures: of the scheduler; None: not known yet.
    :ivar looks: how often the figures were read: the number of what is shown.
    """

    def __init__(
        self,
        config: Config,
        database: Database,
        tasks: Database,
        frontier: Database,
        push: Database,
        hub: Database,
        clock: Any,
        now: Callable[[], float],
        disk_trouble: Callable[[], str],
        keep: Callable[[Samples, Members], StateFile],
        processes: Processes,
        fetching: Fetching,
        token: Callable[[], str],
        in_thread: Callable[..., Deferred[Any]],
        discovery: Discovery,
        content: ContentOpener,
    ) -> None:
        self.config = config
        self.settings = config.web
        self.database = database
        self.tasks = tasks
        self.frontier = frontier
        self.push = push
        self.hub = hub
        self.now = now
        self.clock = clock
        self.samples = Samples()
        self.members = Members()
        self.processes = processes
        self.fetching = fetching
        self.discovery = discovery
        self.content = content
        self.live: Live | None = None
        self.summary: Summary | None = None
        self.figures: TaskFigures | None = None
        self.troubles: tuple[Trouble, ...] = ()
        self.database_trouble = ""
        self.counters = Counters()
        self.in_thread = in_thread
        passwords = Passwords(self._find, in_thread)
        self.accounts = Accounts(self.settings, clock, passwords.user, token, "Web monitor")
        self.followers: set[Callable[[], None]] = set()
        self._disk_trouble = disk_trouble
        self._state_file = keep(self.samples, self.members)
        self._known = Troubles()
        self._summary_due = 0.0
        self._looking = DeferredLock()
        self._work: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None

    # What is shown.

    @property
    def looks(self) -> int:
        """How often the figures were read, or could not be."""
        return self.counters.looks + self.counters.looks_failed

    @property
    def sentence(self) -> str:
        """Whether all is well, in a sentence."""
        return sentence(self.troubles, self.live is not None)

    @property
    def outcomes(self) -> Outcomes:
        """How the fetches of the last minutes ended: what the verdict is made from."""
        return outcomes(self.samples.since(self.now() - JUDGED_SECONDS), self.now())

    @property
    def level(self) -> Level:
        """The worst that there is."""
        return max((trouble.level for trouble in self.troubles), default=Level.NOTE)

    # The clock.

    def start(self) -> None:
        """Look by the clock from now on."""
        self._state_file.load()
        self._work = Deferred.fromCoroutine(self._run())
        self._work.addErrback(self._failed)

    def stop(self) -> Deferred[None]:
        """No longer; fires when the samples are kept."""
        if self._work is not None:
            self._work.cancel()
        self.accounts.stop()
        return gatherResults([self._state_file.close(), self.processes.stop(), self.fetching.stop()]).addCallback(
            lambda _: None
        )

    def soon(self) -> None:
        """Look again at once: something was ordered."""
        self._summary_due = 0.0
        if self._timer is not None:
            self._timer.reset(0)

    async def _run(self) -> None:
        while True:
            begun = self.clock.seconds()
            await self.look()
            left = self.settings.sample_interval - (self.clock.seconds() - begun)
            await self._sleep(max(0.5, left))

    def _sleep(self, seconds: float) -> Deferred[None]:
        def woken() -> None:
            self._timer = None
            done.callback(None)

        done: Deferred[None] = Deferred(lambda _: timer.cancel())
        timer = self._timer = self.clock.callLater(seconds, woken)
        return done

    def _failed(self, failure: Any) -> None:
        if not failure.check(CancelledError):
            _log.failure("Polling stopped", failure=failure)

    async def look(self) -> None:
        """Read the figures once; one look at a time, so that an older one never ends after a newer one."""
        await self._looking.acquire()
        try:
            await self._look()
        finally:
            self._looking.release()

    async def _look(self) -> None:
        self.processes.ask()
        try:
            live, users = await self.database.interact(_read, int(self.now()))
            self.fetching.ask(live)
            self.accounts.check(users)
            self.live = live
            self.members.update(live)
            self.figures = await self.tasks.interact(task_figures, self.now())
            self.members.update_managers(each.name for each in self.figures.managers if each.down_time is not None)
            try:
                if self.clock.seconds() >= self._summary_due:
                    await self._summarise()
            finally:
                self.samples.add(self._sampled(live.state))
            self.database_trouble = ""
            self.counters.looks += 1
        except StoreUnavailable as error:
            self.database_trouble = str(error)
            self.counters.looks_failed += 1
        except CancelledError:
            raise
        except Exception:
            _log.failure("Cannot read the statistics")
            self.database_trouble = "internal error, see the log of lcc-web"
            self.counters.looks_failed += 1
        self._judge()
        self._state_file.save(self.clock.seconds())
        for follower in list(self.followers):
            follower()

    def _sampled(self, state: dict[str, Any]) -> dict[str, Any]:
        """What the plots tell of: the queue as the tables beside them count it, which is without cancelled rows."""
        if not state or self.summary is None:
            return state
        return state | {"queue_rows": self.summary.queued}

    async def _summarise(self) -> None:
        begun = self.clock.seconds()
        self._summary_due = math.inf  # 0 meanwhile: somebody wants a newer one
        try:
            summary = await self.database.interact(summarise, self.now(), self.settings.rows_max)
        except BaseException:
            self._summary_due = 0.0
            raise
        self.summary = summary.after(self.summary)
        took = self.clock.seconds() - begun
        if self._summary_due:
            self._summary_due = begun + max(self.settings.overview_interval, SHARE * took)
        self.counters.summaries += 1

    def _judge(self) -> None:
        now, summary = self.now(), self.summary
        known = Evidence(
            now=now,
            database=self.database_trouble,
            # What was read when the database could be is no news of the queue manager.
            live=None if self.database_trouble else self.live,
            failures=None if summary is None else summary.failures,
            points=tuple(self.samples.since(now - JUDGED_SECONDS)),
            disk=self._disk_trouble(),
            thresholds=self.settings,
            providers=0 if summary is None else summary.overview.providers,
            lag_since=None if summary is None else summary.overview.lag_since,
            waiting=0 if summary is None else summary.registrations,
            wanted={} if summary is None else summary.overview.wanted,
            held=(0, 0) if summary is None else summary.overview.held,
            away=self.members.away(now),
            taken_away=self.members.machines_taken_away,
            processes=self.processes.health,
            tasks=None if self.database_trouble else self.figures,
            managers_dismissed=self.members.managers_dismissed,
        )
        self.troubles = self._known.update(judge(known), now)

    def taken_away(self, kind: str, name: str) -> bool:
        """Somebody who is missed was taken away for good; False: nobody of this name is missed."""
        found = self.members.forget(kind, name)
        self._judge()
        return found

    def _find(self, name: str) -> Deferred[WebUser | None]:
        return self.database.interact(get_web_user, name)


def _read(txn: Txn, now: int) -> tuple[Live, list[WebUser]]:
    return read_live(saved_state(txn), now), list_web_users(txn)
