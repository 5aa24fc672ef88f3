"""Files by which a site proves something, fetched through the guards of the robot.

What is fetched is named by strangers.  So, besides the guards on addresses that every fetch has: redirects stay on
the host, and everything has small limits (:func:`fetch_settings`).
"""

from __future__ import annotations

from typing import Protocol

import attrs
from zope.interface import implementer

from lcc.config import BotConfig
from lcc.domain.registration.sites import follow_on_host, name_of
from lcc.errors import FetchError
from lcc.fetchers.addresses import literal_address
from lcc.interfaces import IContentSink, IFetcher
from lcc.model import FetchOrder

BODY_BYTES_MAX = 1024
HEADER_BYTES_MAX = 16_384


class ProofSettings(Protocol):
    """Settings of a role that fetches such files; lcc.config says what each means."""

    @property
    def allow_private(self) -> bool: ...

    @property
    def any_port(self) -> bool: ...

    @property
    def checks_at_once(self) -> int: ...

    @property
    def connect_timeout(self) -> float: ...

    @property
    def deadline(self) -> float: ...

    @property
    def redirects_max(self) -> int: ...


def fetch_settings(bot: BotConfig, settings: ProofSettings) -> BotConfig:
    """How the files are fetched: as the robot would, with small limits, by the LCC's own fetcher, without memory.

    :param bot: the robot's settings.
    """
    return attrs.evolve(
        bot,
        fetchers=("http",),
        concurrency=settings.checks_at_once,
        connect_timeout=settings.connect_timeout,
        idle_timeout=settings.deadline,
        deadline=settings.deadline,
        redirects_max=settings.redirects_max,
        header_bytes_max=HEADER_BYTES_MAX,
        body_bytes_max=BODY_BYTES_MAX,
        compression=False,
        keepalive=0.0,
        dns_cache=0.0,
    )


@implementer(IContentSink)
class _Body:
    """Keeps the content in memory; the fetcher limits its length."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.content += data


class ProofFiles:
    """Fetches them.

    :param fetcher: of http and https, made with :func:`fetch_settings`.
    """

    def __init__(self, fetcher: IFetcher, settings: ProofSettings) -> None:
        self._fetcher = fetcher
        self._allow_private = settings.allow_private
        self._follow = follow_on_host(settings.any_port)

    async def read(self, number: int, url: str) -> tuple[bytes, bool]:
        """The content of a file, and whether it was found on a private address.

        :param number: of the fetch, for the log.
        :raises FetchError: it was not found.
        """
        try:
            return await self._fetch(number, url, False), False
        except FetchError as error:
            if error.entry.name != "address-forbidden" or not self._allow_private:
                raise
            return await self._fetch(number, url, True), True

    def told(self, url: str, error: FetchError) -> FetchError:
        """What strangers are told of an error: not what names of the operator's own network resolve to, nor which
        there are."""
        names = ("address-forbidden", "dns-failed")
        if self._allow_private or error.entry.name not in names or _is_literal(url):
            return error
        return FetchError("address-forbidden", "this name has no address, or none that may be fetched from")

    async def _fetch(self, number: int, url: str, private: bool) -> bytes:
        body = _Body()
        await self._fetcher.fetch(FetchOrder(number, url, private=private), body, self._follow)
        return body.content


def _is_literal(url: str) -> bool:
    try:
        return literal_address(name_of(url)) is not None
    except FetchError:
        return True  # an odd spelling of one
