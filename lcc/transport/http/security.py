"""What keeps a web page of ours from being used against who looks at it."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable

from twisted.web.server import Request

from lcc.transport.http.server import text_header

POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""Pages have one style sheet and forms; nothing else is loaded, run, or framed."""
SCRIPT_POLICY = (
    f"{POLICY}; img-src 'self'; script-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""And an icon, and one script, which makes no text into script or markup."""
LIVE_POLICY = f"{SCRIPT_POLICY}; connect-src 'self'"
"""And the script asks its own site, and no other."""
PAGE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "cache-control": "no-store",
}
SECURE_SECONDS = 180 * 86400
"""How long browsers insist on https."""
_VALUE = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch


def set_page_headers(request: Request, secure: bool, policy: str = POLICY) -> None:
    """Set them all, and nothing is kept.

    :param secure: the site is reached by https.
    """
    request.setHeader("content-security-policy", policy)
    for name, value in PAGE_HEADERS.items():
        request.setHeader(name, value)
    if secure:
        request.setHeader("strict-transport-security", f"max-age={SECURE_SECONDS}")


class FormGuard:
    """Tells forms that were sent from our own pages from those that another site has made somebody send.

    A page with a form sets a cookie, which other sites can neither read nor set, and the form holds a hash of it that
    only this process can make.  After a restart forms that are open have to be sent once more.

    :param token: gives 16 hexadecimal digits that nobody can guess.
    :param secure: the site is reached by https.
    """

    def __init__(self, token: Callable[[], str], secure: bool) -> None:
        self._token = token
        self._secure = secure
        self._key = (token() + token()).encode()
        self._cookie = "__Host-lcc-form" if secure else "lcc-form"

    def seal(self, request: Request) -> str:
        """What the form of this page has to hold; its cookie is set with the reply."""
        value = self._given(request)
        if value is None:
            value = self._token() + self._token()
            request.addCookie(self._cookie, value, path="/", secure=self._secure, httpOnly=True, sameSite="strict")
        return self._seal(value)

    def accepts(self, request: Request, seal: str) -> bool:
        """Whether this form was sent from a page of ours."""
        if text_header(request, "sec-fetch-site") not in (None, "same-origin", "none"):
            return False
        value = self._given(request)
        return value is not None and hmac.compare_digest(self._seal(value).encode(), seal.encode("utf-8", "replace"))

    def _given(self, request: Request) -> str | None:
        given = request.getCookie(self._cookie.encode())
        value = "" if given is None else given.decode("latin-1")
        return value if _VALUE(value) else None

    def _seal(self, value: str) -> str:
        return hmac.new(self._key, value.encode(), hashlib.sha256).hexdigest()
