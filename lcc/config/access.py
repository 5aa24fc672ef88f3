"""Settings of the content user API, consoles, registration server, mail and TLS."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting

CU_SOCKET = "unix:{home}/cu.sock"
"""Of this machine's own programs."""


def _with_cu_socket(endpoints: tuple[str, ...]) -> tuple[str, ...]:
    return endpoints if any(f"{each}:".startswith(f"{CU_SOCKET}:") for each in endpoints) else (CU_SOCKET, *endpoints)


@attrs.frozen
class CuConfig:
    """The content user API."""

    listen: tuple[str, ...] = setting(
        (),
        "endpoints of the HTTP interface, beside the socket cu.sock in the home folder, which is always open; a "
        "string stands for one",
        or_one=True,
        converter=_with_cu_socket,
    )
    url: str = setting(
        "",
        "URL of the HTTP interface for content users, such as https://cache.example.org/, in documents that name it; "
        "empty: as each request does (behind a proxy with TLS, set this)",
    )
    listen_xml: str = setting(
        "unix:{home}/cu-xml.sock:mode=600:lockfile=0", "endpoint of the XML interface; empty: off"
    )
    without_token: str = setting(
        "",
        "what clients without a token (lcc-admin user add) may read: nothing, rows or content; empty: content over "
        "a UNIX socket, nothing otherwise",
    )
    content: str = setting(
        "",
        "content port of the (central) BOT-M to read content from: https://host:port, http://host:port or unix:PATH; "
        "empty: the one that botm.content_listen opens here",
    )
    content_connections_max: int = setting(
        20, "maximum number of connections to content ports", minimum=1, maximum=10_000
    )
    connections_max: int = setting(500, "maximum number of content user connections for each interface", minimum=1)
    connections_per_address: int = setting(
        100,
        "of these, from one IP address (IPv6: one /64 network), so that one content user cannot take all "
        "connections; 0: no limit (set this behind a proxy)",
        minimum=0,
    )
    idle_timeout: float = setting(
        300.0,
        "disconnect content users that are idle, or do not read, for this long",
        unit="seconds",
        minimum=1,
    )
    temporary: str = setting("", "folder for temporary files of packages, relative to home; empty: home")
    failed_tokens: int = setting(20, "wrong tokens within token_window before an address is throttled", minimum=1)
    token_window: float = setting(60.0, "time window for failed_tokens", unit="seconds", minimum=1)
    packages_max: int = setting(8, "maximum number of packages (tar, WARC) being made", minimum=1, maximum=1000)
    packages_per_user: int = setting(
        2,
        "of these, for one user, or one IP address (IPv6: one /64 network) of clients without a token; 0: no "
        "limit; does not apply to clients without a token over a UNIX socket or if connections_per_address is 0",
        minimum=0,
    )
    package_rate_min: int = setting(
        10_000,
        "disconnect clients that read a package more slowly than this for half a minute, on average while waiting "
        "for them; 0: only idle_timeout applies",
        unit="bytes per second",
        minimum=0,
    )
    wait_max: float = setting(
        120.0, "how long a content user may wait for the next change", unit="seconds", minimum=0, maximum=3600
    )
    hub: bool = setting(
        False, "content users may subscribe to Atom feeds of selections at /hub (WebSub); url must be set, too"
    )
    hub_allow_private: bool = setting(False, "callbacks of subscribers may be on private and loopback addresses")
    hub_subscribers_max: int = setting(
        20_000, "subscribers of the hub; beyond this, further ones are told to try again later", minimum=1
    )
    hub_deliveries: int = setting(20, "deliveries to subscribers at once", minimum=4, maximum=1000)
    hub_deadline: float = setting(10.0, "timeout for a delivery", unit="seconds", minimum=0.1, maximum=300)
    hub_lease: int = setting(
        30 * 86400, "longest lease of a subscription", unit="seconds", minimum=3600, maximum=366 * 86400
    )
    hub_give_up: int = setting(
        3 * 86400, "a subscriber whose deliveries have failed for so long is dropped", unit="seconds", minimum=60
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class ManholeConfig:
    """The consoles of the roles."""

    listen: str = setting("", "endpoint of the console of twistd lcc, with all its roles; empty: off")
    keys: str = setting(
        "manhole-keys",
        "file with the public keys that may log in, in the format of ssh's authorized_keys, relative to home",
    )
    passwords: str = setting(
        "manhole-passwords",
        "password file written by lcc-admin console-password, relative to home; without it, passwords are not "
        "accepted",
    )
    host_key: str = setting("manhole-host-key", "host key, generated at the first start, relative to home")
    login_timeout: float = setting(
        30.0, "close connections that have not logged in after this long", unit="seconds", minimum=0.1
    )
    idle_timeout: float = setting(3600.0, "close sessions that are idle for this long", unit="seconds", minimum=1)
    connections_max: int = setting(10, "maximum number of connections to a console", minimum=1, maximum=1000)
    failed_logins: int = setting(5, "failed logins within login_window before a user is throttled", minimum=1)
    login_window: float = setting(60.0, "time window for failed_logins", unit="seconds", minimum=1)
    output_bytes_max: int = setting(
        200_000, "maximum output of one command; the rest is cut off", unit="bytes", minimum=1000, maximum=100_000_000
    )


@attrs.frozen
class RsConfig:
    """The registration server."""

    listen: str = setting("", "endpoint of the registration pages and their HTTP API; empty: off")
    url: str = setting(
        "",
        "public URL, such as https://register.example.org/, also used in mails; https turns on HSTS",
    )
    operator: str = setting("", "name of the operator, the heading of the pages")
    contact: str = setting("", "mail address or URL of the operator, shown on the pages; empty: contact in [bot]")
    proxy: bool = setting(
        False,
        "the endpoint is only reachable through a reverse proxy that appends the client's address to X-Forwarded-For",
    )
    uns: str = setting(
        "",
        "the --uns that new providers are shown for lcccp, such as lcc.example.org:9000, or "
        "tls:lcc.example.org:9000 for a TLS port",
    )
    approval: bool = setting(False, "new providers and roots need lcc-admin register approve")
    expiry: int = setting(7 * 86400, "how long a secret is valid", unit="seconds", minimum=60, maximum=366 * 86400)
    approval_expiry: int = setting(
        30 * 86400,
        "how long a proven registration waits for approval before it expires",
        unit="seconds",
        minimum=60,
        maximum=366 * 86400,
    )
    allow_private: bool = setting(
        False, "accept sites on private and loopback addresses; their providers get --allow-private"
    )
    any_port: bool = setting(False, "accept sites on ports other than 80 and 443")
    bandwidth_max: int = setting(
        0, "maximum bandwidth that may be requested; 0: unlimited", unit="bytes per second", minimum=0
    )
    priority_max: int = setting(0, "maximum priority that may be requested", minimum=0, maximum=2)
    files_max: int = setting(100_000, "file quota of registered providers; 0: none", minimum=0)
    space_max_bytes: int = setting(10 << 30, "space quota of registered providers; 0: none", unit="bytes", minimum=0)
    full_sets: int = setting(10, "unsolicited full sets for each period of registered providers", minimum=0)
    roots_max: int = setting(20, "maximum number of roots of a provider", minimum=1, maximum=1000)
    providers_per_site: int = setting(
        5,
        "maximum number of providers with roots in the same top-level folder of a host (and port); roots below the "
        "proven folder do not count",
        minimum=1,
    )
    providers_per_host: int = setting(
        100, "maximum number of providers with roots on one host, counted likewise", minimum=1
    )
    pending_max: int = setting(
        10_000,
        "maximum number of registrations in progress; beyond this, clients are told to try again later",
        minimum=1,
        maximum=1_000_000,
    )
    asks_max: int = setting(
        20,
        "registrations requested from one address, for one site or with one mail address, within throttle_window",
        minimum=1,
    )
    checks_max: int = setting(
        60, "fetches of secrets for one address, or from one site, within throttle_window", minimum=1
    )
    throttle_window: float = setting(3600.0, "time window for these limits", unit="seconds", minimum=1)
    failed_logins: int = setting(
        10, "failed logins within throttle_window before a provider id or an address is throttled", minimum=1
    )
    checks_at_once: int = setting(
        16,
        "maximum number of concurrent fetches of secrets; beyond this, clients are told to try again later",
        minimum=1,
        maximum=1000,
    )
    connect_timeout: float = setting(
        10.0, "timeout for connecting to a site", unit="seconds", minimum=0.1, maximum=300
    )
    deadline: float = setting(20.0, "timeout for fetching a secret, redirects included", unit="seconds", minimum=0.1)
    redirects_max: int = setting(
        5, "maximum number of redirects when fetching a secret, on the same host only", minimum=0, maximum=20
    )
    connections_max: int = setting(200, "maximum number of client connections", minimum=1)
    connections_per_address: int = setting(
        40,
        "of these, from one IP address (IPv6: one /64 network); 0, or behind a proxy: no limit",
        minimum=0,
    )
    idle_timeout: float = setting(
        60.0, "close connections that are idle, or do not read, for this long", unit="seconds", minimum=1
    )
    database_timeout: float = setting(
        20.0,
        "how long a request waits for the database before the client is told to try again later",
        unit="seconds",
        minimum=0.1,
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)


@attrs.frozen
class MailConfig:
    """The mail server used by the registration server."""

    host: str = setting("", "host name of the mail server; empty: no mail is sent")
    port: int = setting(587, "port of the mail server", minimum=1, maximum=65535)
    security: str = setting("starttls", "starttls, tls (implicit TLS), or none (only on this host)")
    user: str = setting("", "login name; empty: no authentication")
    password_file: str = setting("", "file whose first line is the user's password, relative to home")
    sender: str = setting("", "sender address")
    timeout: float = setting(30.0, "timeout for sending a mail", unit="seconds", minimum=1, maximum=600)
    authorities: str = setting("", "PEM file with the CAs to trust instead of the machine's, relative to home")


@attrs.frozen
class TlsConfig:
    """Certificates of endpoints that begin with "tls:"."""

    ca: str = setting(
        "tls/ca.pem",
        "PEM file with the CAs that sign the certificates of roles, relative to home",
    )
    certificate: str = setting(
        "tls/{role}.pem",
        "certificate chain of a role, relative to home; {role} stands for qm, uns, botm, bot, cu, admin "
        "(lcc-admin) or metrics",
    )
    key: str = setting("tls/{role}.key", "its key, relative to home")
    public_certificate: str = setting(
        "tls/public.pem",
        "certificate chain for public ports (tls: in [uns] listen, [cu] listen and listen_xml, [rs] listen, [web] "
        "listen), relative to home",
    )
    public_key: str = setting("tls/public.key", "its key, relative to home")
    insecure: bool = setting(
        False,
        "allow connections between roles on different machines without TLS; anyone who reaches such a port can "
        "impersonate a role",
    )
