"""Settings of the push server."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting

UNKNOWN_SITES = ("register", "approve", "refuse")
"""What becomes of sites that are no provider's."""


@attrs.frozen
class PushConfig:
    """The push server: sites tell it of changes by IndexNow, hubs of news in feeds by WebSub, providers of sets."""

    listen: str = setting("", "endpoint of IndexNow, of hubs (/websub/...) and of sets (/sets); empty: off")
    url: str = setting(
        "",
        "public URL of this server, such as https://push.example.org:9743/: by it hubs push what is new in feeds "
        "(WebSub); empty: hubs are left alone",
    )
    hubs: tuple[str, ...] = setting(
        (),
        'hubs of feeds that name none, as "PREFIX HUB": PREFIX is what URLs of such feeds begin with',
    )
    hub_missed: int = setting(
        3, "a hub is dropped after so many news of a feed in succession that only polls have found", minimum=1
    )
    hub_retry: int = setting(7 * 86400, "after which a dropped hub is asked again", unit="seconds", minimum=60)
    name: str = setting("push", "name of this server at the UNS, unique in the LCC: 1 to 40 of A-Z a-z 0-9 . _ @ -")
    connect: str = setting("unix:{home}/notify-push.sock", "endpoint of the UNS's port of notifiers")
    connect_gateway: str = setting(
        "unix:{home}/uns-gateway.sock",
        "endpoint of the UNS's port of gateways, for sets by HTTP (POST /sets); empty: there are none",
    )
    sets_at_once: int = setting(
        4, "sets of one provider from one address that are submitted to the UNS at once; others wait", minimum=1
    )
    request_keys_keep: int = setting(
        86400, "how long an Idempotency-Key of POST /sets is known", unit="seconds", minimum=60
    )
    request_keys_max: int = setting(20_000, "Idempotency-Keys that one provider may use within an hour", minimum=1)
    proxy: bool = setting(
        False,
        "the endpoint is only reachable through a reverse proxy that appends the client's address to X-Forwarded-For",
    )
    unknown_sites: str = setting(
        "approve",
        "sites that are no provider's: register (as watched providers), approve (they wait for lcc-admin push "
        "approve), or refuse",
    )
    allow_private: bool = setting(False, "fetch key files from, and ask hubs on, private and loopback addresses")
    any_port: bool = setting(False, "accept sites on ports other than 80 and 443")
    requests_max: int = setting(6000, "requests from one address within throttle_window", minimum=1)
    keys_max: int = setting(
        20, "keys that one address may name, or one site may have named, within throttle_window", minimum=1
    )
    throttle_window: float = setting(600.0, "time window for these limits", unit="seconds", minimum=1)
    unproven_max: int = setting(
        200_000, "URLs that wait for the proof of a key; beyond this, senders are told to try again later", minimum=1
    )
    untold_max: int = setting(
        2_000_000, "URLs that wait for the UNS; beyond this, senders are told to try again later", minimum=1
    )
    body_bytes: int = setting(4 << 20, "longest body of a request", unit="bytes", minimum=1024, maximum=64 << 20)
    check_interval: int = setting(
        7 * 86400, "how often the key file of a site is fetched again", unit="seconds", minimum=60
    )
    retry_interval: int = setting(
        600, "after a key file was not found, it is not fetched again for so long", unit="seconds", minimum=1
    )
    attempts_max: int = setting(5, "attempts to fetch a key file from a site that cannot be reached", minimum=1)
    keep: int = setting(30 * 86400, "how long reports know a push", unit="seconds", minimum=3600)
    checks_at_once: int = setting(
        8,
        "key files that are fetched at once, and hubs that are asked; of one site or hub a quarter",
        minimum=2,
        maximum=1000,
    )
    connect_timeout: float = setting(
        10.0, "timeout for connecting to a site", unit="seconds", minimum=0.1, maximum=300
    )
    deadline: float = setting(
        20.0, "timeout for fetching a key file, redirects included", unit="seconds", minimum=0.1
    )
    redirects_max: int = setting(
        5, "maximum number of redirects when fetching a key file, on the same host only", minimum=0, maximum=20
    )
    connections_max: int = setting(500, "maximum number of client connections", minimum=1)
    connections_per_address: int = setting(
        40,
        "of these, from one IP address (IPv6: one /64 network); 0, or behind a proxy: no limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "close connections that are idle, or do not read, for this long", unit="seconds", minimum=1
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
