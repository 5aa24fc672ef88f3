"""Settings of the roles that take sets in and keep the queue."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class DatabaseConfig:
    """Where the tables are."""

    url: str = setting(
        "sqlite:lcc.db",
        "sqlite:FILE (relative to home) or mysql://user:password@host:port/name, also with ?unix_socket=PATH; of a "
        "Galera cluster host:port,host:port,host:port",
        secret=True,
    )
    tls_authority: str = setting(
        "",
        "PEM file with the authority of the database server's certificate, relative to home; or system: those that "
        "this machine trusts. Then connections to it over TCP are TLS, and its certificate must be for the host in "
        "url; empty: no TLS, which is refused for a server on another machine unless [tls] insecure is true",
    )
    tls_certificate: str = setting(
        "", "PEM file with the certificate to show to the database server, relative to home; empty: none"
    )
    tls_key: str = setting("", "its key, relative to home; empty: it stands in the same file")
    connect_timeout: float = setting(5.0, "to connect to the database", unit="seconds", minimum=0.1, maximum=300)
    query_timeout: float = setting(120.0, "for one statement (MySQL)", unit="seconds", minimum=1, maximum=86400)
    retries: int = setting(
        8, "how often a transaction is tried again after a deadlock or a lost connection", minimum=0, maximum=100
    )


@attrs.frozen
class UnsConfig:
    """The update notification server."""

    name: str = setting(
        "uns", "names this UNS among all that talk to one queue manager; 60 printable characters at most"
    )
    listen: str = setting("tcp:9000", "endpoint for content providers")
    connect: str = setting("unix:{home}/qm.sock", "endpoint of the queue manager")
    spool: str = setting("spool", "folder of the spool, relative to home")
    spool_max_bytes: int = setting(
        8 << 30,
        "what the spool may hold, each set being counted with 8192 bytes at least (a set of ten million URLs takes "
        "about 2.7 GB); at nine tenths of it providers are told to try again later when they connect",
        unit="bytes",
        minimum=65536,
    )
    spool_reserve: int = setting(
        64 << 20,
        "of the disk with that folder are kept free: below it providers are told to try again later",
        unit="bytes",
        minimum=0,
    )
    answer_timeout: float = setting(
        30.0,
        "a queue manager that has not absorbed a set after this long is not waited "
        "for: the set is answered from the spool",
        unit="seconds",
        minimum=0.1,
    )
    idle_timeout: float = setting(
        300.0, "a provider that sends nothing for this long is dropped", unit="seconds", minimum=1
    )
    stop_timeout: float = setting(
        10.0,
        "when the UNS is stopped, providers that do not read their last answer are dropped after this long",
        unit="seconds",
        minimum=0.1,
        maximum=60,
    )
    login_timeout: float = setting(
        30.0, "a provider that has not said who it is after this long is dropped", unit="seconds", minimum=0.1
    )
    database_timeout: float = setting(
        20.0,
        "a provider whose login waits for this long for an answer of the database is told to try again later",
        unit="seconds",
        minimum=0.1,
    )
    connections_max: int = setting(1000, "provider connections at once", minimum=1)
    connections_per_address: int = setting(
        100, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    connections_per_provider: int = setting(8, "connections at once of one provider", minimum=1)
    set_urls_max: int = setting(50_000_000, "elements of one set", minimum=1)
    set_bytes_max: int = setting(16 << 30, "bytes of one set", unit="bytes", minimum=65536)
    errors_shown: int = setting(100, "errors of earlier fetches shown at connect", minimum=0, maximum=10000)
    unsent_errors_max_bytes: int = setting(
        64 << 20,
        "error containers kept on disk for a provider that does not read, per set; beyond: the set is rejected",
        unit="bytes",
        minimum=65536,
    )
    failed_logins: int = setting(
        10, "wrong passwords within login_window before a provider id or an address is throttled", minimum=1
    )
    login_window: float = setting(60.0, "for failed_logins", unit="seconds", minimum=1)
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class QmConfig:
    """The queue manager."""

    listen: str = setting("unix:{home}/qm.sock:mode=600:lockfile=0", "endpoint for UNSes (BOT-Ms are served, too)")
    listen_botm: str = setting("unix:{home}/qm-botm.sock:mode=600:lockfile=0", "endpoint for BOT-Ms; empty: none")
    connections_max: int = setting(200, "connections of UNSes and BOT-Ms at once, each port", minimum=1)
    connections_per_address: int = setting(
        40, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    absorb_batch: int = setting(2000, "elements absorbed in one transaction", minimum=1, maximum=100_000)
    absorb_batch_bytes: int = setting(
        4 << 20, "the same, as they are held in memory (whichever comes first)", unit="bytes", minimum=65536
    )
    absorb_ahead: int = setting(8000, "elements read from a UNS beyond those being absorbed", minimum=1)
    absorb_ahead_bytes: int = setting(
        16 << 20, "the same, as they are held in memory (whichever comes first)", unit="bytes", minimum=65536
    )
    record_batch: int = setting(500, "results recorded in one transaction", minimum=1, maximum=10_000)
    read_ahead: int = setting(64, "queue rows kept in memory for a provider being fetched", minimum=2, maximum=10_000)
    read_ahead_total: int = setting(20_000, "queue rows kept in memory for all of them, about", minimum=100)
    delete_window: int = setting(200, "delete orders outstanding at a BOT-M", minimum=1, maximum=10_000)
    overload: float = setting(
        1.5, "orders outstanding at a BOT-M, as a multiple of its capacity", minimum=1, maximum=10
    )
    lease: float = setting(
        300.0, "a work order that is not back after this long is given out again", unit="seconds", minimum=10
    )
    queue_rows_max: int = setting(
        10_000_000, "URLs to be fetched beyond this: nothing is taken in from UNSes", minimum=1
    )
    absorb_backlog_max: int = setting(
        100_000,
        "elements from all UNSes that wait in memory to be absorbed, beyond this: nothing is taken in from UNSes",
        minimum=1,
    )
    absorb_backlog_max_bytes: int = setting(
        128 << 20, "the same, as they are held in memory (whichever comes first)", unit="bytes", minimum=65536
    )
    overload_low: float = setting(
        0.8, "UNSes are let in again when all are at or below this part of their limits", minimum=0, maximum=1
    )
    attempts_max: int = setting(7, "fetches of one URL before a retryable error becomes final", minimum=1)
    retry_initial: float = setting(
        60.0, "first delay before a URL that failed is tried again", unit="seconds", minimum=0.01
    )
    retry_maximum: float = setting(
        3600.0,
        "longest delay before a URL that failed is tried again",
        unit="seconds",
        minimum=0.01,
        maximum=30 * 86400,
    )
    bandwidth_bytes: int = setting(
        0, "for all fetches together, as it travels; 0: without limit", unit="bytes per second", minimum=0
    )
    quantum_urls: int = setting(
        100, "fetches of one provider before others of its priority that wait go first", minimum=1
    )
    quantum_bytes: int = setting(
        64 << 20, "the same in bytes that travelled, whichever comes first", unit="bytes", minimum=1
    )
    hours_margin: float = setting(
        30.0,
        "no fetch begins so shortly before its hours end (a quarter of a slot at most): as long may an order be on "
        "its way",
        unit="seconds",
        minimum=0,
    )
    hold_attempts_max: int = setting(
        20, "fetches of one URL before an error of its provider's site is reported as final", minimum=1
    )
    hold_initial: float = setting(
        30.0, "first delay after an error of a provider's site", unit="seconds", minimum=0.01
    )
    hold_maximum: float = setting(
        3600.0, "longest delay after errors of a provider's site", unit="seconds", minimum=0.01
    )
    errors_kept: int = setting(
        100, "errors kept for each provider (the count is exact beyond)", minimum=0, maximum=100_000
    )
    full_set_period: int = setting(
        30 * 86400,
        "a provider's unsolicited full sets are counted in periods of this length",
        unit="seconds",
        minimum=60,
    )
    mass_deletion_share: float = setting(
        0.5,
        "a full set that would delete more than this part of what is cached of its provider is applied, but deletes "
        "nothing before somebody says so; 1: none is held",
        minimum=0,
        maximum=1,
    )
    mass_deletion_floor: int = setting(100, "deletions up to this many are never held", minimum=0)
    delete_grace: int = setting(
        300, "the file of deleted content stays for this long, so that readers can finish", unit="seconds", minimum=0
    )
    age_wanted: int = setting(
        90 * 86400,
        "content that was not confirmed for this long: the provider is asked for a full set; 0: never",
        unit="seconds",
        minimum=0,
    )
    age_expired: int = setting(
        180 * 86400,
        "content that was not confirmed for this long is deleted; 0: never",
        unit="seconds",
        minimum=0,
    )
    housekeeping_period: int = setting(
        86400, "between two looks at the age of all content, and at all sets in the queue", unit="seconds", minimum=1
    )
    tombstones_kept: int = setting(
        180 * 86400, "how long deletions stay visible to content users", unit="seconds", minimum=3600
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
