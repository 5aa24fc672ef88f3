"""Settings of a front end over several LCCs."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class FeConfig:
    """The front end's database: of the front end itself, and of each sub-LCC, which reports to it."""

    database: str = setting(
        "",
        "the front end's database: sqlite:FILE (relative to home) or mysql://..., as [database] url, whose other "
        "settings hold for it, too; not that of an LCC; empty: there is no front end",
        secret=True,
    )
    name: str = setting(
        "",
        "name of this LCC in the front end's database (lcc-admin fe add): its queue manager reports to it; empty: "
        "this is no sub-LCC",
    )
    report_interval: float = setting(
        30.0, "interval between reports of a sub-LCC to the front end", unit="seconds", minimum=1, maximum=3600
    )
    stale: int = setting(
        180,
        "a sub-LCC that has not reported for so long is shown as stale, and gets no new providers",
        unit="seconds",
        minimum=2,
    )


@attrs.frozen
class FeUnsConfig:
    """The front end's proxy of UNSes."""

    listen: str = setting("", "endpoint for content providers, such as tcp:9000 or tls:9001; empty: off")
    listen_notifiers: str = setting(
        "",
        "endpoint for notifiers: scheduler, push server and spiders, as [uns] listen_notifiers; empty: off",
    )
    notifier_connections_max: int = setting(20, "maximum number of connections of notifiers", minimum=1)
    notifier_sets_max: int = setting(
        1000, "sets of one notifier that may wait for their answers", minimum=1, maximum=100_000
    )
    authorities: str = setting(
        "",
        "PEM file with the CAs of the certificates of sub-LCCs' public ports (tls: in lcc-admin fe add --uns), "
        "relative to home; empty: those that this machine trusts",
    )
    login_timeout: float = setting(
        30.0, "disconnect a provider that has not said who it is after this long", unit="seconds", minimum=0.1
    )
    database_timeout: float = setting(
        10.0,
        "how long a login waits for the front end's database before the provider is told to try again later",
        unit="seconds",
        minimum=0.1,
    )
    connect_timeout: float = setting(
        5.0, "timeout for connecting to a UNS of a sub-LCC", unit="seconds", minimum=0.1, maximum=300
    )
    hold: float = setting(
        10.0,
        "how long the login of a provider that is moving waits before it is told to try again later",
        unit="seconds",
        minimum=0,
        maximum=60,
    )
    idle_timeout: float = setting(
        360.0,
        "close connections on which nothing moves for this long, in either direction; more than uns.idle_timeout of "
        "the sub-LCCs, so that providers hear of it from them",
        unit="seconds",
        minimum=1,
    )
    stop_timeout: float = setting(
        10.0,
        "on shutdown, how long connections may go on before they are cut",
        unit="seconds",
        minimum=0.1,
        maximum=60,
    )
    connections_max: int = setting(20_000, "maximum number of provider connections", minimum=1)
    connections_per_address: int = setting(
        100, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    failed_logins: int = setting(
        10, "logins with an id that no sub-LCC has, within login_window, before an address is throttled", minimum=1
    )
    login_window: float = setting(60.0, "time window for failed_logins", unit="seconds", minimum=1)
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
