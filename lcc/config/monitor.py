"""Settings of the web monitor."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class WebConfig:
    """The web monitor."""

    listen: str = setting("", "endpoint of the web monitor, such as tcp:9600:interface=127.0.0.1; empty: off")
    url: str = setting(
        "",
        "public URL, such as https://monitor.example.org/; https turns on HSTS",
    )
    hosts: tuple[str, ...] = setting(
        (),
        "further host names under which it is reached, besides that of url, localhost and IP addresses",
    )
    proxy: bool = setting(
        False,
        "the endpoint is only reachable through a reverse proxy that appends the client's address to X-Forwarded-For",
    )
    sample_interval: float = setting(
        5.0, "interval at which metrics are polled and open pages updated", unit="seconds", minimum=1, maximum=300
    )
    overview_interval: float = setting(
        10.0,
        "interval at which totals of queue, errors and cache are computed; longer if that would take more than a "
        "twentieth of the time",
        unit="seconds",
        minimum=1,
        maximum=3600,
    )
    query_timeout: float = setting(10.0, "timeout of one database query", unit="seconds", minimum=0.1)
    rows_max: int = setting(
        20_000,
        "maximum number of rows read to group errors or to find URLs; beyond this, counts are marked as incomplete",
        minimum=100,
    )
    failing_warning: float = setting(
        0.1, "share of the fetches of ten minutes that fail, beyond which the verdict is amber", minimum=0, maximum=1
    )
    failing_bad: float = setting(0.5, "such a share, beyond which it is red", minimum=0, maximum=1)
    unreachable_warning: float = setting(
        0.05,
        "share of the providers whose sites are unreachable, beyond which the verdict is amber; fewer than five "
        "sites are no trouble",
        minimum=0,
        maximum=1,
    )
    unreachable_bad: float = setting(0.25, "such a share, beyond which it is red", minimum=0, maximum=1)
    lag_warning: float = setting(
        86400.0,
        "wait of a set that could be fetched (its provider is not delayed), beyond which the verdict is amber",
        unit="seconds",
        minimum=60,
    )
    lag_bad: float = setting(3 * 86400.0, "such a wait, beyond which it is red", unit="seconds", minimum=60)
    watch: tuple[str, ...] = setting(
        (),
        "metrics ports of other processes to poll, such as http://127.0.0.1:9112, https://10.0.0.2:9113 or "
        "unix:{home}/cu-metrics.sock; processes known to the queue manager are always watched",
    )
    samples: str = setting(
        "web-samples.json",
        "file that preserves plot samples (one day) and the list of known processes across restarts, relative to "
        "home; empty: none",
    )
    session_max: float = setting(7 * 86400.0, "maximum duration of a login", unit="seconds", minimum=60)
    session_idle: float = setting(
        86400.0, "logins without an open page end after this long", unit="seconds", minimum=60
    )
    sessions_max: int = setting(
        200,
        "maximum number of logins; beyond this, the longest idle one of the user with the most logins ends",
        minimum=1,
    )
    sessions_per_user: int = setting(
        20, "of these, of one user; beyond this, the user's longest idle one ends", minimum=1
    )
    streams_max: int = setting(
        100,
        "maximum number of pages with live updates; beyond this, the oldest one of the user with the most ends",
        minimum=1,
    )
    failed_logins: int = setting(
        10, "failed logins within login_window before a user or an address is throttled", minimum=1
    )
    login_window: float = setting(300.0, "time window for failed_logins", unit="seconds", minimum=1)
    connections_max: int = setting(300, "maximum number of connections", minimum=1)
    connections_per_address: int = setting(
        60,
        "of these, from one IP address (IPv6: one /64 network); 0, or behind a proxy: no limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "close connections that are idle, or do not read, for this long", unit="seconds", minimum=1
    )
    manhole: str = setting("", MANHOLE)
    metrics: str = setting("", METRICS)
