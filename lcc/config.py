"""The configuration: ``lcc.toml`` to frozen objects.

Every setting is declared once, here, with its default, its bounds, its unit and its meaning; ``lcc-admin config
--defaults`` prints this table.  :func:`load_config` reports every fault of a file at once.

``{home}`` in an endpoint string stands for the home folder.  Paths are relative to the folder of the file.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import attrs

from lcc.errors import ConfigError

DEFAULT_FILE = "lcc.toml"
"""Looked for in the current folder when no file is named."""
NAME_CHARS = 60
"""The longest name of a UNS, BOT-M or robot."""

DEFAULT_MIMETYPES = (
    "text/*",
    "application/xhtml+xml",
    "application/xml",
    "application/json",
    "application/pdf",
    "application/msword",
    "image/*",
)


MANHOLE = "endpoint of the console of this role: ssh, on loopback or a UNIX socket; empty: none"


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    secret: bool = False,
) -> Any:
    """Declare one setting of a section.

    :param secret: its value may hold a password: no message shows it.
    """
    metadata = {"meaning": meaning, "unit": unit, "minimum": minimum, "maximum": maximum, "secret": secret}
    return attrs.field(default=default, metadata=metadata, repr=not secret)


@attrs.frozen
class DatabaseConfig:
    """Where the tables are."""

    url: str = setting(
        "sqlite:lcc.db",
        "sqlite:FILE (relative to home) or mysql://user:password@host:port/name, also with ?unix_socket=PATH",
        secret=True,
    )
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
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class BotmConfig:
    """The robot multiplexer."""

    name: str = setting("botm", "names this BOT-M in logs")
    serves: str = setting(
        "bots",
        "bots: the BOT-M of a machine, which robots connect to; botms: a central one, which other BOT-Ms connect to",
    )
    listen: str = setting("unix:{home}/botm.sock:mode=600:lockfile=0", "endpoint for robots, or for BOT-Ms")
    connect: str = setting("unix:{home}/qm-botm.sock", "endpoint of the queue manager")
    parent: str = setting(
        "", "endpoint of the central BOT-M above this one; empty: this one serves the queue manager"
    )
    machine: int = setting(1, "the id of this machine; unique in the LCC", minimum=1, maximum=2**31 - 1)
    content: str = setting("content", "folder of the content files, relative to home")
    content_reserve: int = setting(
        128 << 20,
        "of the disk with that folder are kept free: below it nothing is fetched to this machine until there is room",
        unit="bytes",
        minimum=0,
    )
    names_block: int = setting(10_000, "file names reserved at once", minimum=1, maximum=10_000_000)
    robots_max: int = setting(64, "robots, or BOT-Ms, connected at once", minimum=1, maximum=10_000)
    robots_per_address: int = setting(
        16, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    orders_max: int = setting(
        10_000, "orders and results that are not yet recorded, held at once", minimum=10, maximum=1_000_000
    )
    content_listen: str = setting(
        "unix:{home}/content.sock:mode=600:lockfile=0",
        "endpoint of the content port (HTTP), for lcc-cu, lcc-admin and central BOT-Ms; whoever else reaches it "
        "where it is not tls:… can read all content, too; empty: none",
    )
    content_url: str = setting(
        "",
        "where others reach that port: https://host:port (where content_listen is tls:…), http://host:port, or "
        "unix:PATH; empty: its UNIX socket, for this host only",
    )
    content_connections_max: int = setting(200, "connections to the content port at once", minimum=1, maximum=10_000)
    content_connections_per_address: int = setting(
        40, "of those, of one IP address (of IPv6: of one /64 network); 0: no such limit", minimum=0
    )
    content_idle_timeout: float = setting(
        60.0, "a connection to the content port on which nothing moves for this long", unit="seconds", minimum=1
    )
    sync_interval: float = setting(
        30.0,
        "content files are synced to the disk so often; what is younger is verified after the machine has crashed",
        unit="seconds",
        minimum=1,
        maximum=86400,
    )
    verify_bytes: int = setting(
        50_000_000, "read for that verification, at most", unit="bytes per second", minimum=10_000
    )
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class BotConfig:
    """The robot."""

    name: str = setting("bot", "names this robot in logs")
    connect: str = setting("unix:{home}/botm.sock", "endpoint of the BOT-M")
    listen: str = setting(
        "tcp:9190:interface=127.0.0.1",
        "endpoint of the listening robot (lcc-bot --listen); whoever reaches it has URLs fetched, without a password",
    )
    listen_files: str = setting(
        "fetched", "folder for the files that are named to the listening robot, relative to home"
    )
    concurrency: int = setting(32, "fetches at once", minimum=1, maximum=4096)
    content: str = setting("content", "folder of the content files (the BOT-M's), relative to home")
    user_agent: str = setting("LCC/0.1", "the User-Agent; contact is added to it")
    contact: str = setting("", "mail address or URL where web masters reach you; stands in User-Agent and From")
    connect_timeout: float = setting(10.0, "for a connection", unit="seconds", minimum=0.1, maximum=300)
    idle_timeout: float = setting(30.0, "a server that sends nothing for this long", unit="seconds", minimum=0.1)
    deadline: float = setting(120.0, "for a whole fetch, redirects included", unit="seconds", minimum=0.1)
    header_bytes_max: int = setting(65536, "response header, trailers and chunk framing", unit="bytes", minimum=1024)
    body_bytes_max: int = setting(64 << 20, "content of one URL, as it travels and decoded", unit="bytes", minimum=1)
    compression: bool = setting(True, "ask for compressed content; it is stored decoded")
    decoded_ratio_max: int = setting(
        200, "decoded content beyond the first MiB, as a multiple of what travelled", minimum=2, maximum=100_000
    )
    headers_kept_bytes: int = setting(
        8192, "of the response header that are stored", unit="bytes", minimum=0, maximum=32768
    )
    redirects_max: int = setting(5, "redirects of one fetch", minimum=0, maximum=20)
    keepalive: float = setting(15.0, "an idle connection to a site is kept this long", unit="seconds", minimum=0)
    dns_cache: float = setting(
        60.0, "an address is used again without asking for this long", unit="seconds", minimum=0
    )
    extra_roots: str = setting("", "a PEM file with further certificate authorities to trust, relative to home")
    fetchers: tuple[str, ...] = setting(
        (), "the fetchers to use, by their names, where two fetch a scheme the first of them; empty: all there are"
    )
    file_folders: tuple[str, ...] = setting(
        (), "folders from which file: URLs may be fetched, with what is below them; relative to home; empty: none"
    )
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class CuConfig:
    """The content user API."""

    listen: str = setting("unix:{home}/cu.sock:mode=600:lockfile=0", "endpoint of the HTTP interface; empty: none")
    listen_xml: str = setting(
        "unix:{home}/cu-xml.sock:mode=600:lockfile=0", "endpoint of the XML interface; empty: none"
    )
    without_token: str = setting(
        "",
        'what those who have no token of "lcc-admin user add" may read: nothing, rows or content; empty: content for '
        "those who reach a UNIX socket, else nothing",
    )
    content: str = setting(
        "unix:{home}/content.sock",
        "content port of the (central) BOT-M, where content is read: https://host:port, http://host:port or "
        "unix:PATH",
    )
    content_connections_max: int = setting(20, "connections to content ports at once", minimum=1, maximum=10_000)
    connections_max: int = setting(500, "connections of content users at once, each interface", minimum=1)
    connections_per_address: int = setting(
        100,
        "of those, of one IP address (of IPv6: of one /64 network), so that one content user cannot take all places; "
        "behind a proxy: 0, no such limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        300.0,
        "a content user that asks nothing, or does not read, for this long is dropped",
        unit="seconds",
        minimum=1,
    )
    temporary: str = setting("", "folder for the temporary files of packages, relative to home; empty: home itself")
    failed_tokens: int = setting(
        20, "wrong tokens within token_window before the address that they came from is throttled", minimum=1
    )
    token_window: float = setting(60.0, "for failed_tokens", unit="seconds", minimum=1)
    packages_max: int = setting(8, "packages (tar, WARC) made at once", minimum=1, maximum=1000)
    wait_max: float = setting(
        120.0, "how long a content user may wait for the next change", unit="seconds", minimum=0, maximum=3600
    )
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class ManholeConfig:
    """The consoles of the roles, and that of all of them in one process."""

    listen: str = setting("", "endpoint of the console of twistd lcc, with all roles in it; empty: none")
    keys: str = setting(
        "manhole-keys", "file with the public keys that may log in, as ssh's authorized_keys; relative to home"
    )
    passwords: str = setting(
        "manhole-passwords",
        'file made by "lcc-admin console-password", relative to home; where there is none, no passwords',
    )
    host_key: str = setting("manhole-host-key", "file of the host key, made at the first start; relative to home")
    login_timeout: float = setting(
        30.0, "a connection on which nobody has logged in after this long is closed", unit="seconds", minimum=0.1
    )
    idle_timeout: float = setting(
        3600.0, "a session in which nothing is typed for this long is closed", unit="seconds", minimum=1
    )
    connections_max: int = setting(10, "connections to a console at once", minimum=1, maximum=1000)
    failed_logins: int = setting(5, "wrong passwords within login_window before a user is throttled", minimum=1)
    login_window: float = setting(60.0, "for failed_logins", unit="seconds", minimum=1)
    output_bytes_max: int = setting(
        200_000, "output of one command; what is beyond is cut", unit="bytes", minimum=1000, maximum=100_000_000
    )


@attrs.frozen
class RsConfig:
    """The registration server."""

    listen: str = setting("", "endpoint of its web pages and its HTTP API; empty: there is none")
    url: str = setting(
        "",
        "how its pages are reached from outside, such as https://register.example.org/, for links in mails; https "
        "here makes browsers insist on it",
    )
    proxy: bool = setting(
        False,
        "the endpoint is reached through a web server only, which puts the address of who asks at the end of "
        "X-Forwarded-For",
    )
    uns: str = setting(
        "",
        "what newcomers are told to give lcccp as --uns, such as lcc.example.org:9000, or tls:lcc.example.org:9000 "
        "where that port speaks TLS",
    )
    approval: bool = setting(False, "new providers and roots wait for lcc-admin register approve")
    expiry: int = setting(
        7 * 86400, "a secret that was not found by then is void", unit="seconds", minimum=60, maximum=366 * 86400
    )
    approval_expiry: int = setting(
        30 * 86400,
        "what was proven and not approved by then is void",
        unit="seconds",
        minimum=60,
        maximum=366 * 86400,
    )
    allow_private: bool = setting(
        False, "sites on private and loopback addresses may register; they get --allow-private"
    )
    any_port: bool = setting(False, "sites on other ports than 80 and 443 may register")
    bandwidth_max: int = setting(
        0, "more must not be wished for; 0: as much as one likes", unit="bytes per second", minimum=0
    )
    priority_max: int = setting(0, "no higher priority must be wished for", minimum=0, maximum=2)
    files_max: int = setting(100_000, "quota of files of who registers here; 0: none", minimum=0)
    space_max_bytes: int = setting(10 << 30, "quota of space of who registers here; 0: none", unit="bytes", minimum=0)
    full_sets: int = setting(10, "unsolicited full sets for each period of who registers here", minimum=0)
    roots_max: int = setting(20, "roots of one provider", minimum=1, maximum=1000)
    providers_per_site: int = setting(5, "providers that may have roots on one host (and port)", minimum=1)
    pending_max: int = setting(
        10_000, "registrations that are under way at once; beyond: try again later", minimum=1, maximum=1_000_000
    )
    asks_max: int = setting(
        20,
        "registrations asked for from one address, for one site, with mail to one address, within throttle_window",
        minimum=1,
    )
    checks_max: int = setting(
        60, "fetches of secrets for one address, and from one site, within throttle_window", minimum=1
    )
    throttle_window: float = setting(3600.0, "for both of them", unit="seconds", minimum=1)
    failed_logins: int = setting(
        10, "wrong passwords within throttle_window before a provider id or an address is throttled", minimum=1
    )
    checks_at_once: int = setting(16, "fetches of secrets at once; beyond: try again later", minimum=1, maximum=1000)
    connect_timeout: float = setting(10.0, "for a connection to a site", unit="seconds", minimum=0.1, maximum=300)
    deadline: float = setting(20.0, "for a fetch of a secret, redirects included", unit="seconds", minimum=0.1)
    redirects_max: int = setting(5, "redirects of such a fetch, on the same host only", minimum=0, maximum=20)
    connections_max: int = setting(200, "connections of who registers at once", minimum=1)
    connections_per_address: int = setting(
        40,
        "of those, of one IP address (of IPv6: of one /64 network); 0, or behind a proxy: no such limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "who asks nothing, or does not read, for this long is dropped", unit="seconds", minimum=1
    )
    database_timeout: float = setting(
        20.0,
        "who waits for this long for an answer of the database is told to try again later",
        unit="seconds",
        minimum=0.1,
    )
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class MailConfig:
    """The mail server that the registration server sends through."""

    host: str = setting("", "its name; empty: no mail is sent")
    port: int = setting(587, "its port", minimum=1, maximum=65535)
    security: str = setting("starttls", "starttls, tls (from the first byte on), or none: only on this host")
    user: str = setting("", "to log in as; empty: without")
    password_file: str = setting("", "a file whose first line is that user's password, relative to home")
    sender: str = setting("", "address that mails come from")
    timeout: float = setting(30.0, "for a whole mail", unit="seconds", minimum=1, maximum=600)
    authorities: str = setting(
        "", "a PEM file with the certificate authorities to trust instead of the machine's, relative to home"
    )


@attrs.frozen
class TlsConfig:
    """TLS: endpoints that begin with "tls:"."""

    ca: str = setting(
        "tls/ca.pem",
        "the authorities, a PEM file relative to home: whom a role meets over TLS has a certificate of one of them",
    )
    certificate: str = setting(
        "tls/{role}.pem",
        "the certificate of a role, with those that lead to its authority, relative to home; {role} stands for qm, "
        "uns, botm, bot, cu or admin (lcc-admin)",
    )
    key: str = setting("tls/{role}.key", "its key, relative to home")
    public_certificate: str = setting(
        "tls/public.pem",
        "the certificate for everybody else (tls: in [uns] listen, [cu] listen and listen_xml, [rs] listen), "
        "relative to home",
    )
    public_key: str = setting("tls/public.key", "its key, relative to home")
    insecure: bool = setting(
        False,
        "wires between roles may leave this machine without TLS; whoever reaches such a port can pose as a role",
    )


@attrs.frozen
class Config:
    """All of it.

    :ivar source: the file it came from; None: defaults only.
    """

    home: Path = setting(Path("lcc-home"), "folder for everything the LCC keeps, relative to this file's folder")
    mimetypes: tuple[str, ...] = setting(DEFAULT_MIMETYPES, "mime types that are accepted, * for any subtype")
    timezone: str = setting("", "IANA time zone of the LCC; empty: the machine's")
    slots: int = setting(24, "slots of the rolling period of hours: 24 for a day, 168 for a week")
    slot_seconds: int = setting(3600, "length of a slot of that period", unit="seconds", minimum=10, maximum=86400)
    database: DatabaseConfig = attrs.field(factory=DatabaseConfig)
    uns: UnsConfig = attrs.field(factory=UnsConfig)
    qm: QmConfig = attrs.field(factory=QmConfig)
    botm: BotmConfig = attrs.field(factory=BotmConfig)
    bot: BotConfig = attrs.field(factory=BotConfig)
    cu: CuConfig = attrs.field(factory=CuConfig)
    rs: RsConfig = attrs.field(factory=RsConfig)
    mail: MailConfig = attrs.field(factory=MailConfig)
    tls: TlsConfig = attrs.field(factory=TlsConfig)
    manhole: ManholeConfig = attrs.field(factory=ManholeConfig)
    source: Path | None = attrs.field(default=None, metadata={"internal": True})

    def endpoint(self, text: str) -> str:
        """An endpoint string with ``{home}`` filled in."""
        return text.replace("{home}", re.sub(r"([\\:=])", r"\\\1", str(self.home)))

    def under_home(self, path: str) -> Path:
        """A path of the configuration that is relative to home."""
        return self.home / path


SectionT = TypeVar("SectionT")


def load_config(path: Path | None) -> Config:
    """Read a configuration file; None: ``lcc.toml`` in the current folder; where there is none, the defaults, with
    ``lcc-home`` in the current folder.

    :raises ConfigError: with every fault that was found.
    """
    text, folder, source = read_config(path)
    return parse_config(text, folder, source)


def read_config(path: Path | None) -> tuple[str, Path, Path | None]:
    """The text that :func:`load_config` would parse, the folder that paths in it are relative to, and its file.

    :raises ConfigError: when the file cannot be read.
    """
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.exists():
            return "", Path.cwd(), None
    try:
        return path.read_text(encoding="utf-8"), path.absolute().parent, path
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: {error}"]) from None


def parse_config(text: str, folder: Path, source: Path | None = None) -> Config:
    """The configuration that this text says.

    :param folder: what relative paths are relative to.
    :raises ConfigError: with every fault that was found.
    """
    config, faults = examine_config(text, folder, source)
    if faults:
        raise ConfigError(faults)
    return config


def examine_config(text: str, folder: Path, source: Path | None = None) -> tuple[Config, list[str]]:
    """The configuration that this text says, with the default in place of what is wrong, and every fault.

    :raises ConfigError: when the text is no TOML at all.
    """
    name = str(source) if source else "configuration"
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: {error}"]) from None
    faults: list[str] = []
    config = _section(Config, data, "", faults)
    for where, endpoint in _endpoints(config):
        fault = _endpoint_fault(endpoint)
        if fault:
            faults.append(f"{where} = {endpoint!r}: {fault}")
    for section in ("uns", "botm", "bot"):
        text = getattr(config, section).name
        if not text.strip() or not text.isprintable() or len(text) > NAME_CHARS:
            faults.append(f"{section}.name = {text[:80]!r}: must be 1 to {NAME_CHARS} printable characters")
    scheme = config.database.url.partition(":")[0]
    if scheme not in ("sqlite", "mysql"):
        faults.append("database.url: must begin with sqlite: or mysql:")
    if config.slots not in (24, 168):
        faults.append(f"slots = {config.slots}: must be 24 (a day) or 168 (a week)")
        config = attrs.evolve(config, slots=24)
    if config.botm.serves not in ("bots", "botms"):
        faults.append(f"botm.serves = {config.botm.serves!r}: must be 'bots' or 'botms'")
    if config.cu.without_token not in ("", "nothing", "rows", "content"):
        faults.append(f"cu.without_token = {config.cu.without_token!r}: must be nothing, rows, content or empty")
    if config.rs.url and not re.fullmatch(r"https?://[^/?#\s@]+/(?:[!-~]*/)?", config.rs.url):
        faults.append(f"rs.url = {config.rs.url!r}: must be http:// or https:// and a host, with a / at its end")
    if config.mail.security not in ("starttls", "tls", "none"):
        faults.append(f"mail.security = {config.mail.security!r}: must be starttls, tls or none")
    if config.mail.host and "@" not in config.mail.sender:
        faults.append("mail.sender: must be a mail address where mail.host is set")
    if config.mail.user and not config.mail.password_file:
        faults.append("mail.password_file: must be set where mail.user is")
    for where, endpoint in _manholes(config):
        if endpoint and not is_local_endpoint(endpoint):
            faults.append(
                f"{where} = {endpoint!r}: a console listens on a UNIX socket or on loopback only "
                "(tcp:PORT:interface=127.0.0.1)"
            )
    if 0 < config.qm.age_expired < config.qm.age_wanted:
        faults.append("qm.age_expired: content must not expire before it was asked for (qm.age_wanted)")
    home = config.home
    try:
        home = home.expanduser()
    except RuntimeError as error:
        faults.append(f"home = {str(home)!r}: {error}")
    config = attrs.evolve(config, home=home if home.is_absolute() else folder / home, source=source)
    if config.bot.extra_roots:
        extra_roots = str(config.under_home(config.bot.extra_roots))
        config = attrs.evolve(config, bot=attrs.evolve(config.bot, extra_roots=extra_roots))
    folders = tuple(str(config.under_home(folder)) for folder in config.bot.file_folders)
    config = attrs.evolve(config, bot=attrs.evolve(config.bot, file_folders=folders))
    return config, [f"{name}: {fault}" for fault in faults]


def _section(kind: type[SectionT], data: dict[str, Any], prefix: str, faults: list[str]) -> SectionT:
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    known = attrs.fields(kind)  # type: ignore[arg-type]  # it is one of attrs
    fields = {field.name: field for field in known if not field.metadata.get("internal")}
    for key, value in data.items():
        field = fields.get(key)
        where = f"{prefix}{key}"
        if field is None:
            faults.append(f"{where}: there is no such setting{_suggest(key, fields)}")
        elif attrs.has(hints[key]):
            if isinstance(value, dict):
                values[key] = _section(hints[key], value, f"{where}.", faults)
            else:
                faults.append(f"{where}: must be a table [{where}]")
        else:
            checked = _check(where, value, hints[key], field.metadata, field.default, faults)
            if checked is not None:
                values[key] = checked
    return kind(**values)


def _suggest(key: str, fields: dict[str, Any]) -> str:
    import difflib

    close = difflib.get_close_matches(key, fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _check(where: str, value: Any, kind: Any, metadata: Any, default: Any, faults: list[str]) -> Any:
    if isinstance(value, str) and "\0" in value:
        faults.append(f"{where}: must not hold a NUL character")
        return None
    if kind is Path and isinstance(value, str) and value:
        return Path(value)
    if kind == tuple[str, ...]:
        if (
            isinstance(value, list)
            and (value or default == ())
            and all(isinstance(item, str) and item and "\0" not in item for item in value)
        ):
            return tuple(value)
        faults.append(f"{where}: must be a list of texts, not {value!r}")
        return None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a path"}
        shown = "what stands there" if metadata.get("secret") else repr(value)
        faults.append(f"{where}: must be {names.get(kind, kind)}, not {shown}")
        return None
    if kind is float and not math.isfinite(value):
        faults.append(f"{where}: must be a finite number, not {value!r}")
        return None
    minimum, maximum = metadata.get("minimum"), metadata.get("maximum")
    unit = f" {metadata['unit']}" if metadata.get("unit") else ""
    if minimum is not None and value < minimum:
        faults.append(f"{where} = {value}: must be at least {minimum:g}{unit}")
        return None
    if maximum is not None and value > maximum:
        faults.append(f"{where} = {value}: must be at most {maximum:g}{unit}")
        return None
    return value


def _endpoints(config: Config) -> Iterator[tuple[str, str]]:
    for section in ("uns", "qm", "botm", "bot", "cu", "rs", "manhole"):
        for key in ("listen", "connect", "listen_botm", "content_listen", "parent", "listen_xml", "manhole"):
            endpoint = getattr(getattr(config, section), key, "")
            if endpoint:
                yield f"{section}.{key}", endpoint


def _manholes(config: Config) -> Iterator[tuple[str, str]]:
    yield "manhole.listen", config.manhole.listen
    for section in ("uns", "qm", "botm", "bot", "cu", "rs"):
        yield f"{section}.manhole", getattr(config, section).manhole


_UNIX = re.compile(r"unix:(?:(?:address|path)=)?((?:\\.|[^\\:])*)")
_ENDPOINT_KINDS = frozenset(["tcp", "tcp4", "tcp6", "unix", "ssl", "tls", "systemd", "haproxy", "host"])


def unix_socket_path(endpoint: str) -> str:
    """The path of the socket that a ``unix:`` endpoint string names; empty: it is of another kind."""
    match = _UNIX.match(endpoint)
    return "" if match is None else re.sub(r"\\(.)", r"\1", match[1])


_PART = re.compile(r"(?:\\.|[^\\:])+")
_LOCAL_NAMES = frozenset(["localhost"])


def is_local_endpoint(endpoint: str) -> bool:
    """Whether what listens at this endpoint string is reached from this machine only: a UNIX socket, or loopback."""
    kind, *parts = _PART.findall(endpoint) or [""]
    if kind == "unix":
        return True
    if kind not in ("tcp", "tcp4", "tcp6", "ssl"):
        return False
    interfaces = [part.partition("=")[2] for part in parts if part.startswith("interface=")]
    address = re.sub(r"\\(.)", r"\1", interfaces[-1]) if interfaces else ""
    try:
        return address in _LOCAL_NAMES or ip_address(address).is_loopback
    except ValueError:
        return False


def content_address(config: Config) -> str:
    """Where the BOT-M tells others to read what is at its content port; empty: nowhere.

    A UNIX socket is told only over another one: on another host its path means nothing.
    """
    settings = config.botm
    path = unix_socket_path(config.endpoint(settings.content_listen))
    is_near = bool(unix_socket_path(config.endpoint(settings.parent or settings.connect)))
    return settings.content_url or (f"unix:{path}" if path and is_near else "")


def _endpoint_fault(endpoint: str) -> str:
    kind, colon, rest = endpoint.partition(":")
    if not colon or not rest:
        return "an endpoint string is kind:arguments, for example tcp:9000 or unix:{home}/qm.sock"
    if kind not in _ENDPOINT_KINDS:
        return f"{kind!r} is no kind of endpoint"
    return ""


def describe_defaults() -> str:
    """Every setting with its default, unit, bounds and meaning, as a TOML file with comments."""
    lines = ["# Every setting of lcc.toml, with its default.", ""]
    tables: list[tuple[str, Any]] = []
    for field in attrs.fields(Config):
        if field.metadata.get("internal"):
            continue
        kind = get_type_hints(Config)[field.name]
        if attrs.has(kind):
            tables.append((field.name, kind))
        else:
            lines += _describe(field)
    for name, kind in tables:
        lines += ["", f"# {(kind.__doc__ or '').strip()}", f"[{name}]"]
        for field in attrs.fields(kind):
            lines += _describe(field)
    return "\n".join(lines) + "\n"


def _describe(field: Any) -> list[str]:
    metadata = field.metadata
    notes = [metadata["meaning"]]
    if metadata["unit"]:
        notes.append(f"in {metadata['unit']}")
    if metadata["minimum"] is not None:
        notes.append(f"at least {metadata['minimum']:g}")
    if metadata["maximum"] is not None:
        notes.append(f"at most {metadata['maximum']:g}")
    return [f"# {'; '.join(notes)}", f"{field.name} = {_toml(field.default)}"]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    import json

    return json.dumps(str(value))
