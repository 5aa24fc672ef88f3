"""Which addresses may be fetched from.

A provider chooses the names in its URLs, and the owner of a name chooses what it resolves to: without a guard the
robot would fetch from inside the operator's network.  So each address is judged twice, after name resolution and
again on the connected peer.  A name with any forbidden address is refused as a whole: a mix of public and private
addresses is how rebinding attacks look, and no honest site needs one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

from lcc.errors import FetchError


class Reach(Enum):
    """How far an address reaches."""

    GLOBAL = "global"
    """A host on the Internet."""
    PRIVATE = "private"
    """A host of a private network, or this one: only for providers registered so."""
    NEVER = "never"
    """No address of one web server (multicast, broadcast, unspecified, reserved), or one that tells whoever asks from
    this host its secrets: link-local addresses, and where clouds keep a host's credentials ("metadata")."""


_NEVER4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "100.100.100.200/32",  # metadata (Alibaba)
            "168.63.129.16/32",  # metadata (Azure)
            "169.254.0.0/16",  # link-local; metadata (most clouds)
            "192.0.0.192/32",  # metadata (Oracle)
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_PRIVATE4 = tuple(
    map(
        IPv4Network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",  # documentation, as the other two below
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",
            "203.0.113.0/24",
        ),
    )
)
_PRIVATE_RULE = "private addresses are fetched from only if the operator registered the provider with --allow-private"
_UNICAST6 = IPv6Network("2000::/3")
_PRIVATE6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them: it would hide an IPv4 address
            "2001:db8::/32",
            "3fff::/20",
        ),
    )
)
_NEVER6 = tuple(
    map(
        IPv6Network,
        (
            "::/128",
            "fd00:ec2::/32",  # metadata (Amazon)
            "fd20:ce::254/128",  # metadata (Google)
            "fe80::/10",  # link-local
            "ff00::/8",
        ),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_ISATAP = frozenset([0x0000_5EFE, 0x0200_5EFE])
_SIX_TO_FOUR = IPv6Network("2002::/16")
_TEREDO = IPv6Network("2001::/32")
_COMPATIBLE = IPv6Network("::/96")

_QUAD = re.compile(
    r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
)
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*\.?")


@lru_cache(maxsize=4096)
def reach(text: str) -> Reach:
    """Judge a numeric address, IPv4 or IPv6.

    :raises ValueError: this is no numeric address, or has a zone.
    """
    if ":" in text:
        if "%" in text:
            raise ValueError("an address with a zone")
        return _reach6(IPv6Address(text))
    return _reach4(IPv4Address(text))


def _reach4(address: IPv4Address) -> Reach:
    if any(address in network for network in _NEVER4):
        return Reach.NEVER
    if any(address in network for network in _PRIVATE4):
        return Reach.PRIVATE
    return Reach.GLOBAL


def _reach6(address: IPv6Address) -> Reach:
    if any(address in network for network in _NEVER6):
        return Reach.NEVER
    number = int(address)
    if address in _MAPPED or address in _NAT64:
        return _reach4(IPv4Address(number & 0xFFFFFFFF))
    if address in _SIX_TO_FOUR:
        return _reach4(IPv4Address((number >> 80) & 0xFFFFFFFF))
    if address in _TEREDO:
        # The client's address stands in it inverted.
        client = _reach4(IPv4Address(~number & 0xFFFFFFFF))
        return client if client is Reach.NEVER else Reach.PRIVATE
    if address in _LOCAL_NAT64:
        # Where the IPv4 address stands depends on the operator's prefix (RFC 6052, section 2.2).
        inner = (
            number & 0xFFFFFFFF,
            (number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF,
            (number >> 64 & 0xFF) << 24 | number >> 32 & 0xFFFFFF,
            number >> 24 & 0xFFFFFFFF,
        )
        never = any(_reach4(IPv4Address(each)) is Reach.NEVER and each > 0xFFFFFF for each in inner)
        return Reach.NEVER if never else Reach.PRIVATE
    if number >> 32 & 0xFFFFFFFF in _ISATAP and _reach4(IPv4Address(number & 0xFFFFFFFF)) is not Reach.GLOBAL:
        return _reach4(IPv4Address(number & 0xFFFFFFFF))
    if number == 1:
        return Reach.PRIVATE
    if address in _COMPATIBLE:
        return Reach.NEVER
    if address not in _UNICAST6 or any(address in network for network in _PRIVATE6):
        return Reach.PRIVATE
    return Reach.GLOBAL


def check_address(text: str, private: bool) -> None:
    """Refuse a numeric address that must not be fetched from.

    :param private: the provider may be fetched from private addresses; what can be no web server stays refused.
    :raises FetchError: "address-forbidden".
    """
    try:
        found = reach(text)
    except ValueError:
        raise FetchError("address-forbidden", f"{text[:80]} is no address") from None
    if found is Reach.NEVER:
        raise FetchError("address-forbidden", f"{text} is no address of a web server")
    if found is Reach.PRIVATE and not private:
        raise FetchError("address-forbidden", f"{text} is private; {_PRIVATE_RULE}")


def check_addresses(texts: Iterable[str], private: bool) -> None:
    """Refuse a host if any of its addresses is forbidden.

    :raises FetchError: "address-forbidden".
    """
    for text in texts:
        check_address(text, private)


def literal_address(host: str) -> str | None:
    """The numeric address that a URL's host is; None: it is a name.

    Only canonical dotted quads are taken for IPv4: other spellings (``127.1``, ``0x7f.1``, ``2130706433``, octal)
    mean different addresses to different programs, and are a classic way around guards.

    :param host: as in the URL, IPv6 in its brackets.
    :raises FetchError: "address-forbidden": an odd or impossible spelling.
    """
    if host.startswith("["):
        inner = host[1:-1]
        try:
            if not host.endswith("]") or "%" in inner:
                raise AddressValueError("zone or bracket")
            return str(IPv6Address(inner))
        except AddressValueError:
            raise FetchError("address-forbidden", f"{host[:80]} is no IPv6 address") from None
    if _QUAD.fullmatch(host):
        return host
    if _ENDS_IN_NUMBER.search(host):
        raise FetchError("address-forbidden", f"{host[:80]} is no canonical IPv4 address")
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise FetchError("address-forbidden", f"{host[:80]!r} is no host name")
    return None
