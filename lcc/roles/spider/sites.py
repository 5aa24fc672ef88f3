"""What robots.txt of hosts allow, as the scheduler knows it, and whose URLs there are: asked of ``lcc-cu``, and kept
for a while.

Links are hints, so robots.txt binds them: nothing of a host is told before its rules are known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from twisted.internet.interfaces import IReactorTime

from lcc.client.cache import CacheClient
from lcc.domain.fetches.robots_rules import ALL, NONE
from lcc.model.states import SiteRobots

KEPT_SECONDS = 600.0
UNKNOWN_SECONDS = 2.0
"""How long an unknown robots.txt is not asked for again; the scheduler polls it meanwhile."""
FORBIDDEN_SECONDS = 60.0
"""The same where it cannot be read, so that nothing may be fetched for now."""
_CHARS_MAX = 32 << 20
_ASKED_MAX = 1000


class Sites:
    """See :mod:`lcc.roles.spider.sites`."""

    def __init__(self, client: CacheClient, clock: IReactorTime) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[SiteRobots, float]] = {}
        """By root: what was answered last, and until when that is good; those that were asked for last come last."""
        self._chars = 0

    async def ask(self, roots: Collection[str]) -> None:
        """Find out about these hosts, unless that is known.

        :param roots: ``scheme://host[:port]/``.
        :raises CacheError: ``lcc-cu`` cannot be asked.
        """
        now = self._clock.seconds()
        new = [root for root in roots if _has_robots(root) and self._known.get(root, (None, 0.0))[1] <= now]
        for start in range(0, len(new), _ASKED_MAX):
            for root, robots in zip(
                new[start : start + _ASKED_MAX],
                await self._client.robots(new[start : start + _ASKED_MAX]),
                strict=True,
            ):
                self._keep(root, robots)

    def forget(self, root: str) -> None:
        """Ask anew: a provider of this host is another one by now."""
        known = self._known.pop(root, None)
        if known is not None:
            self._chars -= _size(known[0])

    def forget_unread(self) -> None:
        """Ask anew about the hosts whose robots.txt could not be read."""
        for root in [root for root, (robots, _) in self._known.items() if robots.allow == NONE]:
            self.forget(root)

    def forget_all(self) -> None:
        """Ask anew about all hosts."""
        self._known.clear()
        self._chars = 0

    def providers(self, root: str) -> Sequence[tuple[str, int]] | None:
        """Root and id of those that have one on a host, in the order in which they count; None: that is not known.
        What has no robots.txt is not asked for."""
        known = self._known.get(root)
        return None if known is None else known[0].providers

    def said(self, root: str) -> SiteRobots:
        """What is known of a host; it may be nothing."""
        known = self._known.get(root)
        return SiteRobots(root, "" if _has_robots(root) else ALL) if known is None else known[0]

    def may_tell(self, root: str) -> bool:
        """Whether URLs of a host may be told now, those that its robots.txt allows."""
        return self.said(root).allow not in ("", NONE)

    def patience(self, root: str) -> float:
        """For how many seconds a host need not be looked at whose URLs may not be told now."""
        return FORBIDDEN_SECONDS if self.said(root).allow == NONE else UNKNOWN_SECONDS

    def _keep(self, root: str, robots: SiteRobots) -> None:
        before = self._known.pop(root, None)
        if before is not None:
            self._chars -= _size(before[0])
        if not robots.allow and robots.providers:  # a host without a provider is not waited for
            return  # whoever wants to tell URLs of it asks again; there may be very many such hosts
        self._known[root] = robots, 0.0
        good = KEPT_SECONDS if self.may_tell(root) else self.patience(root)
        self._known[root] = robots, self._clock.seconds() + good
        self._chars += _size(robots)
        while self._chars > _CHARS_MAX and len(self._known) > 1:
            oldest = next(iter(self._known))
            self._chars -= _size(self._known.pop(oldest)[0])


def _has_robots(root: str) -> bool:
    return root.startswith(("http://", "https://"))


def _size(robots: SiteRobots) -> int:
    return len(robots.rules) + sum(len(root) for root, _ in robots.providers) + 500
