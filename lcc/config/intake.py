"""Settings of database, UNS and queue manager."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting

RUN_ORDERS_MAX = 64
"""Orders of one provider that are out at the same time."""


@attrs.frozen
class DatabaseConfig:
    """The database."""

    url: str = setting(
        "sqlite:lcc.db",
        "sqlite:FILE (relative to home) or mysql://user:password@host:port/name, optionally with "
        "?unix_socket=PATH; for a Galera cluster list its nodes: host:port,host:port,host:port",
        secret=True,
    )
    tls_authority: str = setting(
        "",
        "PEM file with the CA of the database server's certificate, relative to home, or system for the CAs that "
        "this machine trusts: TCP connections to the server then use TLS, and its certificate must match the host "
        "in url; empty: no TLS, which is refused for a server on another machine unless [tls] insecure is true",
    )
    tls_certificate: str = setting(
        "", "PEM file with the client certificate for the database server, relative to home; empty: none"
    )
    tls_key: str = setting("", "key of tls_certificate, relative to home; empty: in the same file")
    connect_timeout: float = setting(
        5.0, "timeout for connecting to the database", unit="seconds", minimum=0.1, maximum=300
    )
    query_timeout: float = setting(
        120.0, "timeout for one statement on MySQL", unit="seconds", minimum=1, maximum=86400
    )
    retries: int = setting(
        8, "retries of a transaction after a deadlock or a lost connection", minimum=0, maximum=100
    )


@attrs.frozen
class UnsConfig:
    """The update notification server."""

    name: str = setting(
        "uns", "name of this UNS, unique among the UNSes of a queue manager; at most 60 printable characters"
    )
    listen: str = setting("tcp:9000", "endpoint for content providers")
    proxies: tuple[str, ...] = setting(
        (),
        "IP addresses, or networks, of front ends and other proxies: a connection from there may begin with a header "
        "of the PROXY protocol (version 1), which says where the provider is",
    )
    connect: str = setting("unix:{home}/qm.sock", "endpoint of the queue manager")
    listen_notifiers: str = setting(
        "unix:{home}/notify-{role}.sock",
        "endpoint for notifiers: scheduler, push server and spiders; with {role} there is one for each of these "
        "roles, which a UNIX socket needs; with tls: the certificate says the role; empty: none",
    )
    listen_gateway: str = setting(
        "unix:{home}/uns-gateway.sock",
        "endpoint for the push server, which submits sets on behalf of providers (POST /sets); empty: none",
    )
    notifier_connections_max: int = setting(20, "maximum number of connections of notifiers", minimum=1)
    notifier_sets_max: int = setting(
        1000,
        "sets of one notifier that may wait for their answers; of all notifiers together, twice as many",
        minimum=1,
        maximum=10_000,
    )
    notifier_watches_per_second: float = setting(
        50.0, "how many watched providers notifiers may ask for", unit="a second", minimum=0.1, maximum=10_000
    )
    spool: str = setting("spool", "folder of the spool, relative to home")
    spool_max_bytes: int = setting(
        8 << 30,
        "size limit of the spool; each set counts as at least 8192 bytes, a set of ten million URLs takes about "
        "2.7 GB; at 90% new connections are told to try again later",
        unit="bytes",
        minimum=65536,
    )
    spool_reserve: int = setting(
        64 << 20,
        "space kept free on the disk of the spool; with less, providers are told to try again later",
        unit="bytes",
        minimum=0,
    )
    answer_timeout: float = setting(
        30.0,
        "how long to wait for the queue manager to absorb a set before answering from the spool",
        unit="seconds",
        minimum=0.1,
    )
    idle_timeout: float = setting(
        300.0, "disconnect a provider that sends nothing for this long", unit="seconds", minimum=1
    )
    stop_timeout: float = setting(
        10.0,
        "on shutdown, how long to wait for providers to read their last answer",
        unit="seconds",
        minimum=0.1,
        maximum=60,
    )
    login_timeout: float = setting(
        30.0, "disconnect a provider that has not logged in after this long", unit="seconds", minimum=0.1
    )
    database_timeout: float = setting(
        20.0,
        "how long a login waits for the database before the provider is told to try again later",
        unit="seconds",
        minimum=0.1,
    )
    connections_max: int = setting(1000, "maximum number of provider connections", minimum=1)
    connections_per_address: int = setting(
        100, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    connections_per_provider: int = setting(8, "maximum number of connections of one provider", minimum=1)
    set_urls_max: int = setting(50_000_000, "maximum number of elements in a set", minimum=1)
    set_bytes_max: int = setting(16 << 30, "maximum size of a set", unit="bytes", minimum=65536)
    errors_shown: int = setting(
        100, "how many errors of earlier fetches a provider is shown when it connects", minimum=0, maximum=10000
    )
    unsent_errors_max_bytes: int = setting(
        64 << 20,
        "error containers buffered on disk, for each set, while the provider does not read; beyond this the set is "
        "rejected",
        unit="bytes",
        minimum=65536,
    )
    failed_logins: int = setting(
        10, "failed logins within login_window before a provider id or an address is throttled", minimum=1
    )
    login_window: float = setting(60.0, "time window for failed_logins", unit="seconds", minimum=1)
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class QmConfig:
    """The queue manager."""

    listen: str = setting("unix:{home}/qm.sock:mode=600:lockfile=0", "endpoint for UNSes (also serves BOT-Ms)")
    listen_botm: str = setting("unix:{home}/qm-botm.sock:mode=600:lockfile=0", "endpoint for BOT-Ms; empty: none")
    connections_max: int = setting(200, "maximum number of UNS and BOT-M connections for each port", minimum=1)
    connections_per_address: int = setting(
        40, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    absorb_batch: int = setting(2000, "elements absorbed in one transaction", minimum=1, maximum=100_000)
    absorb_batch_bytes: int = setting(
        4 << 20, "the same limit as bytes of memory; whichever is reached first", unit="bytes", minimum=65536
    )
    absorb_ahead: int = setting(8000, "elements read ahead from each UNS", minimum=1)
    absorb_ahead_bytes: int = setting(
        16 << 20, "the same limit as bytes of memory; whichever is reached first", unit="bytes", minimum=65536
    )
    record_batch: int = setting(500, "results recorded in one transaction", minimum=1, maximum=10_000)
    read_ahead: int = setting(64, "queue rows read ahead for each active provider", minimum=2, maximum=10_000)
    read_ahead_total: int = setting(
        20_000, "queue rows read ahead for all providers together, approximately", minimum=100
    )
    delete_window: int = setting(
        1000, "maximum number of outstanding delete orders at a BOT-M", minimum=1, maximum=10_000
    )
    overload: float = setting(
        1.5, "maximum number of runs of orders at a BOT-M, as a multiple of its capacity", minimum=1, maximum=10
    )
    run_rows: int = setting(
        16,
        "orders of one provider that are out at the same time; one robot carries them out one after the other",
        minimum=1,
        maximum=RUN_ORDERS_MAX,
    )
    serial_by_host: str = setting(
        "watched",
        "which providers that share a host are fetched from one at a time: watched: a watched one and all others of "
        "its host; all: any; no: none",
    )
    lease: float = setting(
        300.0, "how long a robot may take before its order is given out again", unit="seconds", minimum=10
    )
    queue_rows_max: int = setting(10_000_000, "queue length above which UNSes are not served", minimum=1)
    absorb_backlog_max: int = setting(
        100_000,
        "backlog of elements waiting to be absorbed above which UNSes are not served",
        minimum=1,
    )
    absorb_backlog_max_bytes: int = setting(
        128 << 20, "the same limit as bytes of memory; whichever is reached first", unit="bytes", minimum=65536
    )
    overload_low: float = setting(
        0.8,
        "UNSes are served again when queue and backlog are at or below this fraction of their limits",
        minimum=0,
        maximum=1,
    )
    attempts_max: int = setting(7, "attempts to fetch a URL before a retryable error becomes final", minimum=1)
    retry_initial: float = setting(60.0, "delay before the first retry of a failed URL", unit="seconds", minimum=0.01)
    retry_maximum: float = setting(
        3600.0,
        "maximum delay between retries of a failed URL",
        unit="seconds",
        minimum=0.01,
        maximum=30 * 86400,
    )
    bandwidth_bytes: int = setting(
        0, "bandwidth for all fetches together, as transferred; 0: unlimited", unit="bytes per second", minimum=0
    )
    quantum_urls: int = setting(
        100, "fetches from one provider before waiting providers of the same priority get their turn", minimum=1
    )
    quantum_bytes: int = setting(
        64 << 20, "the same limit in bytes transferred; whichever is reached first", unit="bytes", minimum=1
    )
    hours_margin: float = setting(
        30.0,
        "no fetch starts this close to the end of its hours, to allow for the order's transit; at most a quarter "
        "of a slot",
        unit="seconds",
        minimum=0,
    )
    hold_attempts_max: int = setting(
        20, "attempts to fetch a URL before an error of its provider's site becomes final", minimum=1
    )
    hold_initial: float = setting(
        30.0, "first delay of a provider after an error of its site", unit="seconds", minimum=0.01
    )
    hold_maximum: float = setting(
        3600.0, "maximum delay of a provider after errors of its site", unit="seconds", minimum=0.01
    )
    retry_after_max: float = setting(
        86400.0,
        "how long a provider is left alone, at most, whose web server has answered 429 or 503 with Retry-After; "
        "0: Retry-After is ignored",
        unit="seconds",
        minimum=0,
        maximum=30 * 86400,
    )
    errors_kept: int = setting(
        100, "errors kept for each provider; further ones are only counted", minimum=0, maximum=100_000
    )
    full_set_period: int = setting(
        30 * 86400,
        "period of the limit on a provider's unsolicited full sets",
        unit="seconds",
        minimum=60,
    )
    mass_deletion_share: float = setting(
        0.5,
        "if a full set would delete more than this fraction of its provider's pages, its deletions are held until "
        "confirmed; 1: never",
        minimum=0,
        maximum=1,
    )
    mass_deletion_floor: int = setting(100, "up to this many deletions are never held", minimum=0)
    delete_grace: int = setting(
        300, "how long the file of deleted content is kept, for readers to finish", unit="seconds", minimum=0
    )
    age_wanted: int = setting(
        90 * 86400,
        "age of unconfirmed content at which its provider is asked for a full set; 0: never",
        unit="seconds",
        minimum=0,
    )
    age_expired: int = setting(
        180 * 86400,
        "age at which unconfirmed content is deleted; 0: never",
        unit="seconds",
        minimum=0,
    )
    reverify: int = setting(
        90 * 86400,
        "age at which unconfirmed content that not only its provider told of is asked for again; 0: never",
        unit="seconds",
        minimum=0,
    )
    housekeeping_period: int = setting(
        86400, "interval between checks of the age of all content and of all queued sets", unit="seconds", minimum=1
    )
    tombstones_kept: int = setting(
        180 * 86400, "how long deletions remain visible to content users", unit="seconds", minimum=3600
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
