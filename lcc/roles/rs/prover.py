"""The proof: the file with the secret is fetched from the site, through the guards of the robot.

What is fetched is named by strangers.  So, besides the guards on addresses that every fetch has: redirects stay on
the host, the body has to be the secret and nothing else, and everything has small limits (:func:`fetch_settings`).
"""

from __future__ import annotations

import attrs
from twisted.logger import Logger
from zope.interface import implementer

from lcc.config import BotConfig, RsConfig
from lcc.domain.sites import file_in, follow_on_host, name_of
from lcc.errors import FetchError, LccError, RegistrationRefused
from lcc.fetchers.addresses import literal_address
from lcc.interfaces import IContentSink, IFetcher
from lcc.model import FetchOrder, Registration
from lcc.storage.providers.passwords import verify_password

_log = Logger()

BODY_BYTES_MAX = 1024
HEADER_BYTES_MAX = 16_384
SHOWN_CHARS = 60
"""Of other content, so that its owner sees where it comes from."""
BUSY_SECONDS = 10.0


def fetch_settings(bot: BotConfig, settings: RsConfig) -> BotConfig:
    """How secrets are fetched: as the robot would, with small limits, by the LCC's own fetcher, without memory.

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


class NotProven(Exception):
    """Secret not found.

    :ivar url: where it was looked for.
    :ivar error: what happened, for who asked.
    :ivar detail: details, for the operator.
    """

    def __init__(self, url: str, error: LccError, detail: LccError | None = None) -> None:
        self.url = url
        self.error = error
        self.detail = detail or error
        super().__init__(f"{url}: {error.code} {error.text}")


@implementer(IContentSink)
class _Body:
    """Keeps the content in memory; the fetcher limits its length."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self.content += data


class Prover:
    """Fetches the secrets that prove ownership of sites.

    :param fetcher: of http and https, made with :func:`fetch_settings`.
    :ivar running: proofs that are being looked for.
    """

    def __init__(self, fetcher: IFetcher, settings: RsConfig) -> None:
        self._fetcher = fetcher
        self._settings = settings
        self._follow = follow_on_host(settings.any_port)
        self.running = 0

    async def prove(self, registration: Registration) -> bool:
        """Find the secret in each folder, now.

        :returns: it was found on a private address.
        :raises NotProven: somewhere it was not.
        :raises RegistrationRefused: too many are being fetched at present.
        """
        if self.running >= self._settings.checks_at_once:
            text = "too many checks in progress, try again in a moment"
            raise RegistrationRefused("busy", text, {}, BUSY_SECONDS)
        self.running += 1
        try:
            return any([await self._find(registration, folder) for folder in registration.folders])
        finally:
            self.running -= 1

    async def _find(self, registration: Registration, folder: str) -> bool:
        url = file_in(folder, registration.file)
        private = False
        try:
            try:
                content = await self._fetch(registration.number, url, False)
            except FetchError as error:
                if error.entry.name != "address-forbidden" or not self._settings.allow_private:
                    raise
                private = True
                content = await self._fetch(registration.number, url, True)
            _compare(content, registration.secret_hash)
        except FetchError as error:
            told = self._told(url, error)
            if told is not error:
                _log.info("Cannot fetch {url}: {error}", url=url, error=str(error))
            raise NotProven(url, told, error) from None
        return private

    def _told(self, url: str, error: FetchError) -> FetchError:
        """What strangers are told of an error: not what names of the operator's own network resolve to, nor which
        there are."""
        names = ("address-forbidden", "dns-failed")
        if self._settings.allow_private or error.entry.name not in names or _is_literal(url):
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


def _compare(content: bytes, secret_hash: str) -> None:
    """
    :raises FetchError: the content is anything but the secret.
    """
    # Editors put a line's end behind it.
    text = content.rstrip(b" \t\r\n").decode("utf-8", "replace")
    if not verify_password(text, secret_hash):
        shown = f"{text[:SHOWN_CHARS]!a}{' and more' if len(text) > SHOWN_CHARS else ''}" if text else "nothing"
        raise FetchError("other-content", f"it contains {shown}")
