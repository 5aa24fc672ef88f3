"""Settings of what content users, providers and operators reach."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


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
    packages_per_user: int = setting(
        2,
        "of those, for one user, or, without a token, for one IP address (of IPv6: for one /64 network); 0, or "
        "without a token over a UNIX socket, or where connections_per_address is 0: no such limit",
        minimum=0,
    )
    package_rate_min: int = setting(
        10_000,
        "who reads a package more slowly, on the average of the time in which it was waited for, is dropped after "
        "half a minute of that; 0: only who reads nothing for idle_timeout",
        unit="bytes per second",
        minimum=0,
    )
    wait_max: float = setting(
        120.0, "how long a content user may wait for the next change", unit="seconds", minimum=0, maximum=3600
    )
    metrics: str = setting("", METRICS)
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
    providers_per_site: int = setting(
        5,
        "providers that may have roots in the same first folder of a host (and port); roots below the folder that is "
        "proven do not count",
        minimum=1,
    )
    providers_per_host: int = setting(100, "providers that may have roots on one host, counted likewise", minimum=1)
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
    metrics: str = setting("", METRICS)
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
        "uns, botm, bot, cu, admin (lcc-admin) or metrics",
    )
    key: str = setting("tls/{role}.key", "its key, relative to home")
    public_certificate: str = setting(
        "tls/public.pem",
        "the certificate for everybody else (tls: in [uns] listen, [cu] listen and listen_xml, [rs] listen, [web] "
        "listen), relative to home",
    )
    public_key: str = setting("tls/public.key", "its key, relative to home")
    insecure: bool = setting(
        False,
        "wires between roles may leave this machine without TLS; whoever reaches such a port can pose as a role",
    )
