"""Registrations of a front end (seed 002, section 12: FERS): a provider is made in the sub-LCC with the most room.

*Owns* what it writes: registrations in the front end's database, rows of PMDB, providers in the sub-LCCs' databases.

*Strategy.*  The steps of a registration are those of a registration server (:mod:`lcc.roles.rs.registrar`), which
works with this store as with its own.  What it carries out is in two databases, so it is done in steps that can each
be repeated:

1. where, and with which id: the sub-LCC whose site is watched already, else the one with the most free room, which
   draws an id from its own range (one that is not used then is never used);
2. PMDB has a row "making", and the registration the id, in one commit;
3. the provider is made, or changed, in the sub-LCC's database: known again by its password, so that there is one;
4. PMDB says "here", and the registration "done", in one commit.

*Failures.*  A crash between any two steps: whoever asks again, or the sweep a minute later, goes on with what stands
in the registration.  A registration that has expired midway: the sweep asks the sub-LCC whether the provider is
there, and PMDB gets its row or loses it.  A sub-LCC whose database cannot be reached: "try again later", since nobody
can say whether it watches the site, or has as many providers of the host as there may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.logger import Logger
from zope.interface import implementer

from lcc.config import RsConfig
from lcc.domain.frontend.sub_lccs import home_of, with_most_room
from lcc.errors import RegistrationRefused, StoreUnavailable
from lcc.interfaces import IRegistrationStore
from lcc.model import Progress, Proves, Provider, Registration
from lcc.model.frontend.places import AtHome, Placement, SubLcc, SubState, Vitals
from lcc.roles.sub_databases import SubDatabases
from lcc.storage.database.database import Database
from lcc.storage.database.transactions import Txn
from lcc.storage.fe.placements import being_made, made, placements, unmade
from lcc.storage.fe.registrations import Making, begin_making, end_making, give_up_making, unfinished
from lcc.storage.fe.sublccs import list_sublccs, list_vitals
from lcc.storage.providers.pid_range import RangeTaken, reserve_pid
from lcc.storage.providers.providers import get_provider, registered_provider
from lcc.storage.providers.registrations import (
    SiteCounts,
    apply_registration,
    check_counts,
    check_sites,
    finish_registration,
    get_registration,
    note_proof,
    open_registration,
    proven_registration,
    remove_expired,
    site_counts,
)
from lcc.storage.providers.watched import left_watcher, watcher_of

_log = Logger()

UNFINISHED_SECONDS = 60
"""What was begun so long ago and is not done is gone on with."""
ABANDONED_SECONDS = 3600
SWEPT_AT_ONCE = 100


@attrs.frozen
class _Seen:
    """What a sub-LCC knows of the site of a registration.

    :ivar watcher: the provider that watches it there; 0: none.
    :ivar left: one that watched it there has moved.
    """

    sub: SubLcc
    watcher: int
    left: bool
    counts: Mapping[str, SiteCounts]


@implementer(IRegistrationStore)
class FrontRegistrationStore:
    """
    :param front: the front end's database.
    :param databases: of the sub-LCCs.
    :param stale_seconds: a sub-LCC that has not reported for so long gets no new providers.
    :param now: whole seconds since 1970.
    """

    def __init__(
        self,
        front: Database,
        databases: SubDatabases,
        settings: RsConfig,
        stale_seconds: int,
        now: Callable[[], int],
    ) -> None:
        self._front = front
        self._databases = databases
        self._settings = settings
        self._stale = stale_seconds
        self._now = now

    def open(self, registration: Registration) -> Deferred[int]:
        async def work() -> int:
            try:
                await self._check_sites(registration)
            except StoreUnavailable:
                pass  # it is checked again when the secret is found
            return await self._front.write(open_registration, registration, self._settings)

        return Deferred.fromCoroutine(work())

    def find(self, number: int, now: int) -> Deferred[Registration | None]:
        return self._front.interact(get_registration, number, now)

    def prove(self, number: int, private: bool, now: int) -> Deferred[Registration]:
        async def work() -> Registration:
            registration = await self._front.write(note_proof, number, private, self._settings, now)
            return registration if registration.state is not Progress.ASKED else await self._carry_out(registration)

        return Deferred.fromCoroutine(work())

    def approve(self, number: int, now: int) -> Deferred[Registration]:
        async def work() -> Registration:
            registration = await self._front.write(proven_registration, number, now)
            return registration if registration.state is Progress.DONE else await self._carry_out(registration)

        return Deferred.fromCoroutine(work())

    def provider(self, pid: int) -> Deferred[Provider | None]:
        async def work() -> Provider | None:
            found = await self._place(pid)
            return None if found is None else await self._databases.of(found[0]).select(registered_provider, pid)

        return Deferred.fromCoroutine(work())

    def remove_expired(self, now: int) -> Deferred[int]:
        async def work() -> int:
            removed = await self._front.write(remove_expired, now)
            await self._finish(now)
            return removed

        return Deferred.fromCoroutine(work())

    async def _check_sites(self, registration: Registration) -> None:
        """
        :raises RegistrationRefused: the sites have as many providers as they may have, in all sub-LCCs together.
        """
        if registration.kind is Proves.PASSWORD:
            return
        found = await self._place(registration.pid) if registration.pid else None
        looked = await self._look(registration)
        elsewhere = _counted([seen for seen in looked if found is None or seen.sub.subid != found[0].subid])
        if found is not None:
            await self._databases.of(found[0]).interact(check_sites, registration, self._settings, elsewhere)
            return
        for folder, counts in elsewhere.items():
            check_counts(folder, counts, self._settings)

    # Carrying out.

    async def _carry_out(self, registration: Registration) -> Registration:
        if registration.kind is Proves.PROVIDER:
            return await self._make(registration)
        found = await self._place(registration.pid)
        if found is None:
            raise RegistrationRefused("gone", f"provider {registration.pid} is no longer registered")
        sub, placement = found
        if placement.state is not AtHome.HERE:
            raise RegistrationRefused("busy", "the provider is moving, try again later", {}, 60.0)
        elsewhere: Mapping[str, SiteCounts] = {}
        if registration.kind is Proves.ROOT:
            elsewhere = _counted([seen for seen in await self._look(registration) if seen.sub.subid != sub.subid])
        pid = await self._databases.of(sub).write(apply_registration, registration, self._settings, elsewhere)
        return await self._front.write(finish_registration, registration, pid)

    async def _make(self, registration: Registration) -> Registration:
        looked = await self._look(registration)
        if not any(seen.watcher for seen in looked) and any(seen.left for seen in looked):
            # One that moves between two databases may be seen in neither, once.
            looked = await self._look(registration)
        if registration.pid:  # it was begun; PMDB has lost its row only if it was put back from a backup
            home = home_of((seen.sub for seen in looked), registration.pid)
            begun = registration.pid, 0 if home is None else home.subid
        else:
            begun = await self._choose(looked)
        making: Making = await self._front.write(begin_making, registration.number, *begun, self._now())
        sub = next((seen.sub for seen in looked if seen.sub.subid == making.subid), None)
        if sub is None:
            raise StoreUnavailable(f"sub-LCC {making.subid} is not there")
        elsewhere = _counted([seen for seen in looked if seen.sub.subid != sub.subid])
        try:
            pid = await self._databases.of(sub).write(
                apply_registration, making.registration, self._settings, elsewhere
            )
        except RegistrationRefused:
            await self._front.write(give_up_making, making, self._now())
            raise
        return await self._front.write(end_making, making.registration, pid, sub.subid, self._now())

    async def _choose(self, looked: list[_Seen]) -> tuple[int, int]:
        """The id of a new provider, and the number of its sub-LCC."""
        watching = [seen for seen in looked if seen.watcher]
        if watching:
            return watching[0].watcher, watching[0].sub.subid
        sub = await self._with_room(looked)
        try:
            return await self._databases.of(sub).write(reserve_pid), sub.subid
        except RangeTaken as error:
            raise RegistrationRefused("full", f"sub-LCC {sub.name}: {error}") from None

    async def _with_room(self, looked: list[_Seen]) -> SubLcc:
        vitals: dict[int, Vitals] = await self._front.select(list_vitals)
        sub = with_most_room((seen.sub for seen in looked), vitals, self._now(), self._stale)
        if sub is None:
            _log.warn("No sub-LCC takes new providers: none that is open and not stale has room (lcc-admin fe list)")
            raise RegistrationRefused("busy", "there is no room for new providers, try again later", {}, 3600.0)
        return sub

    async def _look(self, registration: Registration) -> list[_Seen]:
        """What each sub-LCC knows of the registration's site.

        :raises StoreUnavailable: one cannot be asked.
        """
        subs = [sub for sub in await self._front.select(list_sublccs) if sub.state is not SubState.REMOVED]
        asking = [self._databases.of(sub).interact(_site, registration.folders) for sub in subs]
        try:
            answers: list[Any] = await gatherResults(asking, consumeErrors=True)
        except FirstError as error:
            error.subFailure.raiseException()
        return [_Seen(sub, *answer) for sub, answer in zip(subs, answers, strict=True)]

    async def _place(self, pid: int) -> tuple[SubLcc, Placement] | None:
        subs: list[SubLcc] = await self._front.select(list_sublccs)
        (row,) = await self._front.select(placements, [pid])
        home = home_of(subs, pid)
        placement: Placement = row or Placement(pid, 0 if home is None else home.subid)
        sub = next((each for each in subs if each.subid == placement.subid), None)
        return None if sub is None or sub.state is SubState.REMOVED else (sub, placement)

    # What was left.

    async def _finish(self, now: int) -> None:
        """Go on with what a crash has left, and clean up behind what has expired."""
        for number in await self._front.select(unfinished, now, UNFINISHED_SECONDS, SWEPT_AT_ONCE):
            registration = await self._front.interact(get_registration, number, now)
            if registration is not None:
                try:
                    done = await self._carry_out(registration)
                except RegistrationRefused as refused:
                    _log.warn("Registration {number} cannot be finished: {why}", number=number, why=refused.text)
                else:
                    _log.info("Registration {number} finished: provider {pid}", number=number, pid=done.pid)
        abandoned = await self._front.select(being_made, now, ABANDONED_SECONDS, SWEPT_AT_ONCE)
        subs = {sub.subid: sub for sub in await self._front.select(list_sublccs)} if abandoned else {}
        for placement in abandoned:
            sub = subs.get(placement.subid)
            if sub is not None:
                there = await self._databases.of(sub).select(get_provider, placement.pid)
                if there is None:
                    await self._front.write(unmade, placement.pid)
                else:
                    await self._front.write(made, placement.pid, now)


def _site(txn: Txn, folders: tuple[str, ...]) -> tuple[int, bool, dict[str, SiteCounts]]:
    watchers = [pid for folder in folders if (pid := watcher_of(txn, folder)) is not None]
    # In this order: what leaves in between is found in one of the two places.
    left = left_watcher(txn, folders) is not None
    return (watchers[0] if watchers else 0), left, {folder: site_counts(txn, folder) for folder in folders}


def _counted(looked: list[_Seen]) -> dict[str, SiteCounts]:
    """The sums by folder."""
    sums: dict[str, SiteCounts] = {}
    for seen in looked:
        for folder, counts in seen.counts.items():
            before = sums.get(folder, SiteCounts(0, 0))
            sums[folder] = SiteCounts(before.near + counts.near, before.there + counts.there)
    return sums
