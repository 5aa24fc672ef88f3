"""Key files: the proof that who pushes speaks for a folder of a site.

A file is fetched when its key is named for the first time, and again each week.  A site that cannot be reached is
tried several times, with growing waits; what waits for the proof waits so long.  A file that has not the key, or is
not there, refuses the key: for a while each push with it is answered 403, with the reason, without another fetch.
A key that was good stays so while its site cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.logger import Logger

from lcc.config import PushConfig
from lcc.domain.fetches.retries import doubled_seconds
from lcc.domain.push.indexnow import key_fault
from lcc.errors import FetchError, Remedy, code
from lcc.model.push.pushes import KeyState, SiteKey
from lcc.roles.notifier import NotifierRefused
from lcc.roles.places import Places
from lcc.roles.proof_files import ProofFiles
from lcc.roles.push.counters import Counters
from lcc.roles.push.draws import Draws
from lcc.storage.database.database import Database
from lcc.storage.providers.watched import provider_of
from lcc.storage.push.store import LongestWait, PushStore

_log = Logger()

_TRY_LATER = code("try-later")
_WAIT_SECONDS = 60
"""Before the first repetition; each time twice as long."""
_UNS_SECONDS = 5
"""After which a UNS that did not answer is asked again."""


class Prover:
    """See :mod:`lcc.roles.push.prover`.

    :param main: the database of providers; only read.
    :param freed: called with the number of URLs that wait for a proof no longer, and whether they are told.
    :ivar tick, stop: those of its :class:`lcc.roles.places.Places`.
    """

    def __init__(
        self,
        settings: PushConfig,
        files: ProofFiles,
        store: PushStore,
        main: Database,
        draws: Draws,
        now: Callable[[], float],
        counters: Counters,
        freed: Callable[[int, bool], None],
    ) -> None:
        self._settings = settings
        self._files = files
        self._store = store
        self._main = main
        self._draws = draws
        self._now = now
        self._counters = counters
        self._freed = freed
        self._fetches = 0
        self._places: Places[SiteKey] = Places(
            "check keys",
            settings.checks_at_once,
            lambda *which: store.due_keys(int(self._now()), *which),
            self._look,
            lambda key: key.site,
            settings.checks_at_once // 4,
        )
        self.tick, self.stop = self._places.tick, self._places.stop

    @property
    def longest_waits(self) -> list[LongestWait]:
        """Of keys, by their states."""
        settings = self._settings
        failing = [
            LongestWait(
                KeyState.WAITING, doubled_seconds(_WAIT_SECONDS, failures - 1, settings.check_interval), failures
            )
            for failures in range(1, settings.attempts_max)
        ]
        return [
            LongestWait(KeyState.WAITING, 0, 0),
            *failing,
            LongestWait(KeyState.APPROVED, _UNS_SECONDS),
            LongestWait(KeyState.PROVEN, settings.check_interval),
            LongestWait(KeyState.REFUSED, settings.retry_interval),
        ]

    async def _look(self, key: SiteKey) -> None:
        new = key
        if key.state is not KeyState.APPROVED:
            self._fetches += 1
            try:
                content, _ = await self._files.read(self._fetches, key.location)
                fault = key_fault(content, key.key)
                if fault:
                    raise FetchError("other-content", fault)
            except FetchError as error:
                await self._save(self._not_found(key, error))
                return
            self._counters.proven += 1
            now = int(self._now())
            new = attrs.evolve(
                key,
                state=KeyState.PROVEN,
                why="",
                proven_time=now,
                due_time=now + self._settings.check_interval,
                failures=0,
            )
            if key.state is KeyState.PROVEN:
                await self._save(new)
                return
        await self._save(await self._with_provider(new))

    def _not_found(self, key: SiteKey, error: FetchError) -> SiteKey:
        self._counters.not_proven += 1
        told, now = self._files.told(key.location, error), int(self._now())
        why = f"{key.location}: {told.code} {told.text}"
        _log.info("Cannot prove a key of {site}: {error}", site=key.site, error=f"{key.location}: {error}")
        failures = key.failures + 1
        unreachable = error.entry.remedy in (Remedy.HOLD_PROVIDER, Remedy.RETRY)
        if unreachable and (failures < self._settings.attempts_max or key.state is KeyState.PROVEN):
            wait = doubled_seconds(_WAIT_SECONDS, failures - 1, self._settings.check_interval)
            return attrs.evolve(key, why=why, failures=failures, due_time=now + wait)
        due = now + self._settings.retry_interval
        return attrs.evolve(key, state=KeyState.REFUSED, why=why, failures=failures, due_time=due)

    async def _with_provider(self, key: SiteKey) -> SiteKey:
        """A proven key, with the provider of its folder."""
        now, settings = int(self._now()), self._settings
        pid = await self._main.interact(provider_of, key.folder)
        if pid is None and key.state is not KeyState.APPROVED and settings.unknown_sites == "approve":
            return attrs.evolve(key, state=KeyState.APPROVAL, why=f"{key.folder} waits for the operator's approval")
        if pid is None and settings.unknown_sites == "refuse":
            why = f"{key.folder} is not in a provider's root, and others are not accepted here"
            return attrs.evolve(key, state=KeyState.REFUSED, why=why, due_time=now + settings.retry_interval)
        if pid is None:
            link = self._draws.link
            try:
                if link is None or not link.connected:
                    raise NotifierRefused(_TRY_LATER, "the UNS is unreachable")
                pid = await link.watch(key.folder)
            except NotifierRefused as refused:
                if refused.code == _TRY_LATER:
                    # Its file is not fetched once more for that.
                    due = now + _UNS_SECONDS
                    return attrs.evolve(key, state=KeyState.APPROVED, why=refused.text, due_time=due)
                due = now + settings.retry_interval
                return attrs.evolve(key, state=KeyState.REFUSED, why=str(refused), due_time=due)
        due = now + settings.check_interval
        return attrs.evolve(key, state=KeyState.PROVEN, pid=pid, why="", due_time=due)

    async def _save(self, key: SiteKey) -> None:
        order = await self._draws.draw(key.pid) if key.state is KeyState.PROVEN and key.pid else 0
        freed = await self._store.save_key(key, order)
        if freed:
            self._freed(freed, key.state is KeyState.PROVEN)
