"""Where hostile URLs lead: addresses in disguise, and names whose owner chooses what they mean."""

from __future__ import annotations

import attrs

PUBLIC = "8.8.8.8"
NO_ANSWER = ("silence",)


@attrs.frozen
class Place:
    """A host that must not be fetched from.

    :ivar host: as in a URL.
    :ivar answers: what its name means, each time that somebody asks; :data:`NO_ANSWER`: nobody says.
    :ivar error: the name of the error that the (last) fetch ends with.
    :ivar private: also of a provider that may be fetched from private addresses.
    :ivar odd: no URL of a provider can have it, but a redirect can try.
    """

    name: str
    host: str
    answers: tuple[tuple[str, ...], ...] = ()
    error: str = "address-forbidden"
    private: bool = False
    odd: bool = False


PLACES = (
    Place("loopback", "127.0.0.1"),
    Place("loopback elsewhere", "127.8.8.8"),
    Place("loopback of IPv6", "[::1]"),
    Place("a private network", "10.0.0.1"),
    Place("the cloud's own", "169.254.169.254"),
    Place("a private network of IPv6", "[fd00::1]"),
    Place("link-local of IPv6", "[fe80::1]"),
    Place("v4 in v6", "[::ffff:7f00:1]"),
    Place("v4 behind NAT64", "[64:ff9b::7f00:1]"),
    Place("v4 in 6to4", "[2002:7f00:1::1]"),
    Place("v4 in Teredo", "[2001:0:808:808::80ff:fffe]"),
    Place("v4 in v6, the old way", "[::7f00:1]", private=True),
    Place("no address", "0.0.0.0", private=True),
    Place("no address of IPv6", "[::]", private=True),
    Place("no address in v6", "[::ffff:0:0]", private=True),
    Place("everybody", "255.255.255.255", private=True),
    Place("a group", "224.0.0.1", private=True),
    Place("a group of IPv6", "[ff02::1]", private=True),
    Place("a short loopback", "127.1", odd=True, private=True),
    Place("a loopback as a number", "2130706433", odd=True, private=True),
    Place("a loopback as an octal", "0177.0.0.1", odd=True, private=True),
    Place("a loopback in hexadecimal", "0x7f.0.0.1", odd=True, private=True),
    Place("a loopback with a dot", "127.0.0.1.", odd=True, private=True),
    Place("five numbers", "127.0.0.1.1", odd=True, private=True),
    Place("a number too large", "127.0.0.256", odd=True, private=True),
    Place("a name of loopback", "loopback.example", (("127.0.0.1",),)),
    Place("a name of v4 in v6", "mapped.example", (("::ffff:127.0.0.1",),)),
    Place("a name of NAT64", "nat64.example", (("64:ff9b::a9fe:a9fe",),)),
    Place("a name of no address", "zero.example", (("0.0.0.0",),), private=True),
    Place("a name of good and bad", "mixed.example", ((PUBLIC, "127.0.0.1"),)),
    Place("a name that is bound again", "rebind.example", ((PUBLIC,), ("127.0.0.1",))),
    Place(
        "a name of too many",
        "many.example",
        (tuple(f"8.8.{number}.8" for number in range(65)),),
        "dns-failed",
        private=True,
    ),
    Place("a name of nothing", "none.example", ((),), "dns-failed", private=True),
    Place("a name that nobody answers for", "silent.example", (NO_ANSWER,), "dns-failed", private=True),
)
