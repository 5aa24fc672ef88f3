"""The proof: the file with the secret is fetched from the site, through the guards of the robot.

What is fetched is named by strangers (:mod:`lcc.roles.proof_files`); the body has to be the secret and nothing else.
"""

from __future__ import annotations

import codecs

from twisted.logger import Logger

from lcc.config import RsConfig
from lcc.domain.registration.sites import file_in
from lcc.errors import FetchError, LccError, RegistrationRefused
from lcc.interfaces import IFetcher
from lcc.model import Registration
from lcc.roles.proof_files import ProofFiles
from lcc.storage.providers.passwords import verify_password

_log = Logger()

SHOWN_CHARS = 60
"""Of other content, so that its owner sees where it comes from."""
BUSY_SECONDS = 10.0
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""What files begin with that Windows writes, and their encodings."""


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


class Prover:
    """Fetches the secrets that prove ownership of sites.

    :param fetcher: of http and https, made with :func:`lcc.roles.proof_files.fetch_settings`.
    :ivar running: proofs that are being looked for.
    """

    def __init__(self, fetcher: IFetcher, settings: RsConfig) -> None:
        self._files = ProofFiles(fetcher, settings)
        self._settings = settings
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
        try:
            content, private = await self._files.read(registration.number, url)
            _compare(content, registration.secret_hash)
        except FetchError as error:
            told = self._files.told(url, error)
            if told is not error:
                _log.info("Cannot fetch {url}: {error}", url=url, error=str(error))
            raise NotProven(url, told, error) from None
        return private


def _compare(content: bytes, secret_hash: str) -> None:
    """
    :raises FetchError: the content is anything but the secret.
    """
    # Editors put a line's end behind it, and those of Windows a mark before it.
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    text = content.decode(encoding, "replace").rstrip(" \t\r\n")
    if not verify_password(text, secret_hash):
        shown = f"{text[:SHOWN_CHARS]!a}{' and more' if len(text) > SHOWN_CHARS else ''}" if text else "nothing"
        raise FetchError("other-content", f"it contains {shown}")
