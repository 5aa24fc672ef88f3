"""Settings of the search server."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class SearchConfig:
    """The search server: follows the changes of the cache, and answers queries in its pages (extra lcc[search])."""

    listen: str = setting("", "endpoint of the search; empty: off")
    open: bool = setting(
        False, "everybody may search all pages, without a login; else users of lcc-admin web-user and user"
    )
    title: str = setting("", "name of the search, on its pages and in browsers; empty: LCC search")
    url: str = setting("", "public URL, such as https://search.example.org/; https turns on HSTS")
    hosts: tuple[str, ...] = setting(
        (), "further host names under which it is reached, besides that of url, localhost and IP addresses"
    )
    proxy: bool = setting(
        False,
        "the endpoint is only reachable through a reverse proxy that appends the client's address to X-Forwarded-For",
    )
    session_max: float = setting(7 * 86400.0, "maximum duration of a login", unit="seconds", minimum=60)
    session_idle: float = setting(86400.0, "logins that are not used end after this long", unit="seconds", minimum=60)
    sessions_max: int = setting(
        1000,
        "maximum number of logins; beyond this, the longest idle one of the user with the most logins ends",
        minimum=1,
    )
    sessions_per_user: int = setting(
        50, "of these, of one user; beyond this, the user's longest idle one ends", minimum=1
    )
    failed_logins: int = setting(
        10, "failed logins within login_window before a user or an address is throttled", minimum=1
    )
    login_window: float = setting(300.0, "time window for failed_logins", unit="seconds", minimum=1)
    cache: str = setting(
        "unix:{home}/cu.sock", "lcc-cu, to read pages from: https://host:port, http://host:port or unix:PATH"
    )
    token_file: str = setting(
        "", "file whose first line is the token for lcc-cu, relative to home; empty: without a token"
    )
    folder: str = setting("search", "folder of the index, relative to home")
    pages_at_once: int = setting(500, "pages that are read from lcc-cu at once, at most", minimum=1, maximum=100_000)
    page_bytes: int = setting(
        8 << 20, "what is read of a page at most; a longer PDF has no text", unit="bytes", minimum=1024
    )
    text_chars: int = setting(
        200_000, "what is indexed of the text of a page at most", unit="characters", minimum=1000, maximum=10_000_000
    )
    batch_bytes: int = setting(
        16 << 20, "content of pages that is held in memory at once", unit="bytes", minimum=1 << 20
    )
    memory_bytes: int = setting(
        64 << 20,
        "memory for what is indexed before it is written",
        unit="bytes",
        minimum=16 << 20,
        maximum=4_000_000_000,
    )
    commit_interval: float = setting(
        0.5, "least time between two commits of the index while pages arrive", unit="seconds", minimum=0.0, maximum=60
    )
    workers: int = setting(
        0, "processes that read the texts of pages; 0: one for each processor, but at most 4", minimum=0, maximum=256
    )
    worker_memory_bytes: int = setting(1 << 30, "address space of each of them", unit="bytes", minimum=1 << 28)
    page_seconds: float = setting(
        20.0, "time to read the text of one page; a PDF has half of it", unit="seconds", minimum=0.1, maximum=3600
    )
    queries_at_once: int = setting(4, "queries that are answered at once; others wait", minimum=1, maximum=100)
    queries_waiting: int = setting(
        200, "queries that wait; beyond this, who asks is told to try again later", minimum=1, maximum=100_000
    )
    failed_tokens: int = setting(20, "wrong tokens within token_window before an address is throttled", minimum=1)
    token_window: float = setting(60.0, "time window for failed_tokens", unit="seconds", minimum=1)
    connections_max: int = setting(500, "maximum number of client connections", minimum=1)
    connections_per_address: int = setting(
        100,
        "of these, from one IP address (IPv6: one /64 network); 0: no limit (set this behind a proxy)",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "close connections that are idle, or do not read, for this long", unit="seconds", minimum=1
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
