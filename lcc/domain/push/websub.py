"""WebSub (https://www.w3.org/TR/websub/): the rules that subscribers and hubs share, without I/O.

Others' hubs and subscribers are not trusted: numbers are bounded, secrets are compared in constant time, and what is
wrong is said in words.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, urlencode, urljoin

from lcc.domain.urls import URL_CHARS, normalise, scheme_of
from lcc.errors import UrlError
from lcc.model.push.websub import HubOfFeed, HubState, HubSubscription
from lcc.numbers import parse_number

LEASE_ASKED_SECONDS = 21 * 86400
"""Two thirds of it are the longest that a subscription is left alone."""
LEASE_MIN_SECONDS = 60
"""Of a shorter lease the subscription would be over before it can be renewed."""
RENEWAL_SECONDS_MAX = 14 * 86400
LEASE_NUMBER_MAX = 10**12
SECRET_BYTES_MAX = 199
"""As the specification has it: less than 200."""
CHALLENGE_CHARS_MAX = 1024
SIGNATURE_CHARS_MAX = 256
METHODS = ("sha1", "sha256", "sha384", "sha512")
FIELDS_MAX = 50
_LINK = re.compile(
    r'\s*<([^<>]*)>((?:\s*+;\s*+[\w!#$&+.^`|~*-]++(?:\s*+=\s*+(?:"(?:[^"\\]|\\.)*+"|[^\s";,]++))?)*+)\s*+(?:,|\Z)'
)
_REL = re.compile(r';\s*+rel\s*+=\s*+(?:"([^"]*)"|([^\s";,]+))', re.IGNORECASE)
_LINKS_MAX = 100


class WebSubRefused(Exception):
    """A request of WebSub that is not accepted.

    :ivar status: of the answer.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


# Finding hubs.


def links_of_headers(lines: Iterable[str], base: str) -> list[tuple[str, str]]:
    """Relation and URL of each link in fields ``Link`` (RFC 8288), absolute; what is none is left out."""
    found: list[tuple[str, str]] = []
    for line in lines:
        at = 0
        while at < len(line) and len(found) < _LINKS_MAX:
            match = _LINK.match(line, at)
            if match is None:
                break
            at = match.end()
            rel = _REL.search(match[2])
            url = absolute_url(match[1], base)
            if rel and url:
                found += [(each.lower(), url) for each in (rel[1] or rel[2] or "").split()]
    return found


def absolute_url(reference: str, base: str) -> str:
    """The http or https URL that is meant, spelled as it is written: a hub knows its topics by that; empty: none."""
    try:
        url = urljoin(base, reference.strip())
    except ValueError:
        return ""
    return url if is_url(url) else ""


def hub_named(links: Sequence[tuple[str, str]], url: str) -> HubOfFeed | None:
    """The hub that these links (relation, URL) name, the first one counts; None: they name none.

    :param url: of the feed: the topic, if they do not name that.
    """
    hub, topic = (
        next((target for rel, target in links if rel == name and is_url(target)), "") for name in ("hub", "self")
    )
    return HubOfFeed(hub, topic or url) if hub else None


def read_hubs(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Prefix of feeds and their hub, of each line ``PREFIX HUB`` of the configuration.

    :raises ValueError: one is not of that form.
    """
    found = []
    for line in lines:
        words = line.split()
        try:
            prefix, hub = (normalise(word) for word in words)
        except (ValueError, UrlError):
            raise ValueError(f'{line!r} is not "PREFIX HUB", two http or https URLs') from None
        if not all(scheme_of(word) in ("http", "https") for word in (prefix, hub)):
            raise ValueError(f'{line!r} is not "PREFIX HUB", two http or https URLs')
        found.append((prefix, hub))
    return found


def hub_of(url: str, named: HubOfFeed | None, configured: Sequence[tuple[str, str]]) -> HubOfFeed | None:
    """The hub of a feed: the configured one of the longest prefix, else the one that it names."""
    fitting = [(prefix, hub) for prefix, hub in configured if url.startswith(prefix)]
    if fitting:
        _, hub = max(fitting, key=lambda each: len(each[0]))
        return HubOfFeed(hub, named.topic if named is not None else url)
    return named


# Signatures and leases.


def sign(secret: str, body: bytes, method: str = "sha256") -> str:
    """The value of ``X-Hub-Signature``."""
    return f"{method}={hmac.new(secret.encode(), body, method).hexdigest()}"


def signature_fault(secret: str, header: str | None, body: bytes) -> str:
    """Why this signature does not show that the body is of whoever has the secret; empty: it does."""
    if not header:
        return "X-Hub-Signature is missing: this subscription has a secret"
    method, equals, digest = header.strip().partition("=")
    method = method.lower()
    if not equals or method not in METHODS or len(header) > SIGNATURE_CHARS_MAX:
        return f"X-Hub-Signature is not METHOD=HEX, with one of {', '.join(METHODS)}"
    right = sign(secret, body, method).partition("=")[2]
    if not hmac.compare_digest(right.encode(), digest.lower().encode("utf-8", "replace")):
        return "X-Hub-Signature is wrong: the body was not signed with the secret of this subscription"
    return ""


def renewal_time(now: int, lease_seconds: int) -> int:
    """When a subscription that was confirmed now is renewed: after two thirds of its lease, 14 days at most."""
    return now + min(lease_seconds * 2 // 3, RENEWAL_SECONDS_MAX)


def lease_fault(text: str) -> str:
    """What is wrong with ``hub.lease_seconds`` of a hub's question; empty: nothing."""
    try:
        lease = parse_number(text, LEASE_NUMBER_MAX)
    except ValueError:
        return f"hub.lease_seconds: {text[:40]!r} is no number of seconds"
    if lease < LEASE_MIN_SECONDS:
        return f"hub.lease_seconds: a lease of {lease} seconds ends before it can be renewed"
    return ""


# What is sent.


def subscription_form(mode: str, asked: HubSubscription, callback: str) -> bytes:
    """The body of a request to a hub.

    :param mode: ``subscribe`` or ``unsubscribe``.
    """
    fields = {"hub.mode": mode, "hub.topic": asked.topic, "hub.callback": callback}
    if mode == "subscribe":
        fields |= {"hub.secret": asked.secret, "hub.lease_seconds": str(LEASE_ASKED_SECONDS)}
    return urlencode(fields).encode("ascii")


def read_form(body: bytes) -> dict[str, str]:
    """The fields of a form, each once.

    :raises WebSubRefused: it is none.
    """
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError:
        raise WebSubRefused(400, "the body is no form (application/x-www-form-urlencoded, UTF-8)") from None
    return once(pairs)


def once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names and values.

    :raises WebSubRefused: one of WebSub's is there twice.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found and name.startswith("hub."):
            raise WebSubRefused(400, f"{name[:40]} is there twice")
        found[name] = value
    return found


# The hub's question.


def question_fault(asked: HubSubscription, fields: Mapping[str, str]) -> str:
    """Why a hub's question (its GET to the callback) is not answered with its challenge; empty: it is."""
    mode, challenge = fields.get("hub.mode", ""), fields.get("hub.challenge", "")
    if fields.get("hub.topic", "") != asked.topic:
        return "hub.topic is not the one that was subscribed to with this callback"
    if not challenge or len(challenge) > CHALLENGE_CHARS_MAX:
        return f"hub.challenge must have 1 to {CHALLENGE_CHARS_MAX} characters"
    if mode == "unsubscribe":
        return "" if asked.state in (HubState.LEAVING, HubState.DROPPED) else "this subscription is wanted"
    if mode != "subscribe":
        return f"hub.mode: {mode[:40]!r} is none of subscribe, unsubscribe, denied"
    if asked.state in (HubState.LEAVING, HubState.DROPPED) or not asked.asked_time:
        return "nobody has asked for this subscription now"
    return lease_fault(fields.get("hub.lease_seconds", str(LEASE_ASKED_SECONDS)))


def is_url(text: str) -> bool:
    """Whether this is a http or https URL of bearable length."""
    try:
        return len(text) <= URL_CHARS and scheme_of(normalise(text)) in ("http", "https")
    except UrlError:
        return False
