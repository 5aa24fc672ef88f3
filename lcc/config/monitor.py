"""Settings of the web monitor."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class WebConfig:
    """The web monitor."""

    listen: str = setting("", "endpoint of its pages, such as tcp:9600:interface=127.0.0.1; empty: there is none")
    url: str = setting(
        "",
        "how its pages are reached, such as https://monitor.example.org/; https here makes browsers insist on it",
    )
    hosts: tuple[str, ...] = setting(
        (),
        "further host names that its pages are asked for under; that of url, localhost and addresses always are",
    )
    proxy: bool = setting(
        False,
        "the endpoint is reached through a web server only, which puts the address of who asks at the end of "
        "X-Forwarded-For",
    )
    sample_interval: float = setting(
        5.0, "polling interval; open pages follow", unit="seconds", minimum=1, maximum=300
    )
    overview_interval: float = setting(
        10.0,
        "queue, errors and cache are summed up so often; less often where that takes long: a twentieth of the time "
        "at most",
        unit="seconds",
        minimum=1,
        maximum=3600,
    )
    query_timeout: float = setting(
        10.0, "for one question to the database; a page that would take longer says so", unit="seconds", minimum=0.1
    )
    rows_max: int = setting(
        20_000, "rows that are looked at to group errors, or to find URLs; beyond, counts say so", minimum=100
    )
    watch: tuple[str, ...] = setting(
        (),
        "metrics ports of other processes, which are asked how they are, such as http://127.0.0.1:9112, "
        "https://10.0.0.2:9113 or unix:{home}/cu-metrics.sock; those that the queue manager knows are watched anyway",
    )
    samples: str = setting(
        "web-samples.json",
        "file that keeps the samples of the plots (a day of them), and who was ever connected, over a restart, "
        "relative to home; empty: none",
    )
    session_max: float = setting(
        7 * 86400.0, "who has logged in has to do so again after this long", unit="seconds", minimum=60
    )
    session_idle: float = setting(86400.0, "or when no page was open for this long", unit="seconds", minimum=60)
    sessions_max: int = setting(
        200,
        "logins at once; beyond, the one that was idle for longest ends of the user who has the most",
        minimum=1,
    )
    sessions_per_user: int = setting(
        20, "of those, of one user; beyond, the one of that user that was idle for longest ends", minimum=1
    )
    streams_max: int = setting(
        100,
        "pages at once that follow by themselves; beyond, the oldest ends of the user who has the most",
        minimum=1,
    )
    failed_logins: int = setting(
        10, "wrong passwords within login_window before a user or an address is throttled", minimum=1
    )
    login_window: float = setting(300.0, "for failed_logins", unit="seconds", minimum=1)
    connections_max: int = setting(300, "connections at once", minimum=1)
    connections_per_address: int = setting(
        60,
        "of those, of one IP address (of IPv6: of one /64 network); 0, or behind a proxy: no such limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "who asks nothing, or does not read, for this long is dropped", unit="seconds", minimum=1
    )
    manhole: str = setting("", MANHOLE)
    metrics: str = setting("", METRICS)
