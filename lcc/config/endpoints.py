"""Parses endpoint strings."""

from __future__ import annotations

import re
from ipaddress import ip_address

from lcc.config.mysql_url import parse_mysql_url
from lcc.config.root import Config

_UNIX = re.compile(r"unix:(?:(?:address|path)=)?((?:\\.|[^\\:])*)")
_ENDPOINT_KINDS = frozenset(["tcp", "tcp4", "tcp6", "unix", "ssl", "tls", "systemd", "haproxy", "host"])


def unix_socket_path(endpoint: str) -> str:
    """The path of the socket that a ``unix:`` endpoint string names; empty: it is of another kind."""
    match = _UNIX.match(endpoint)
    return "" if match is None else re.sub(r"\\(.)", r"\1", match[1])


_PART = re.compile(r"(?:\\.|[^\\:])+")
_LOCAL_NAMES = frozenset(["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"])
_SHORT_LOOPBACK = re.compile(r"127(\.\d+){1,3}", re.ASCII)


def _split(endpoint: str) -> list[str]:
    return _PART.findall(endpoint) or [""]


def is_local_endpoint(endpoint: str) -> bool:
    """Whether what listens at this endpoint string is reached from this machine only: a UNIX socket, or loopback."""
    kind, *parts = _split(endpoint)
    if kind == "unix":
        return True
    if kind not in ("tcp", "tcp4", "tcp6", "ssl"):
        return False
    interfaces = [part.partition("=")[2] for part in parts if part.startswith("interface=")]
    address = re.sub(r"\\(.)", r"\1", interfaces[-1]) if interfaces else ""
    return is_local_host(address)


def leads_to_this_machine(endpoint: str) -> bool:
    """Whether who connects to this endpoint string stays on this machine, by its spelling."""
    kind, *parts = _split(endpoint)
    if kind not in ("tcp", "tcp4", "tcp6"):
        return kind == "unix"
    named = dict(part.split("=", 1) for part in parts if "=" in part)
    places = [part for part in parts if "=" not in part]
    # As Twisted reads them.
    host = places[0] if len(places) > 1 or (places and "host" not in named) else named.get("host", "")
    host = re.sub(r"\\(.)", r"\1", host)
    return is_local_host(host) or bool(_SHORT_LOOPBACK.fullmatch(host))


def is_local_host(host: str) -> bool:
    """Whether a host name or address is this machine's own, by its spelling."""
    try:
        return host.lower() in _LOCAL_NAMES or ip_address(host).is_loopback
    except ValueError:
        return False


def mysql_hosts(url: str) -> list[str]:
    """The hosts that a ``mysql:`` URL reaches over TCP; none, too, where the URL cannot be understood."""
    try:
        parsed = parse_mysql_url(url)
    except ValueError:
        return []
    return [] if parsed.unix_socket else [host for host, _ in parsed.servers]


def content_address(config: Config) -> str:
    """Where the BOT-M tells others to read what is at its content port; empty: nowhere.

    A UNIX socket is told only over another one: on another host its path means nothing.
    """
    settings = config.botm
    path = unix_socket_path(config.endpoint(settings.content_listen))
    is_near = bool(unix_socket_path(config.endpoint(settings.parent or settings.connect)))
    return settings.content_url or (f"unix:{path}" if path and is_near else "")


def content_source(config: Config, setting: str) -> str:
    """Where a role reads content.

    :param setting: its ``content``; empty: from the content port of this configuration's BOT-M.
    """
    if setting:
        return setting.replace("{home}", str(config.home))
    settings = config.botm
    endpoint = config.endpoint(settings.content_listen)
    path = unix_socket_path(endpoint)
    if path:
        return f"unix:{path}"
    if settings.content_url:
        return settings.content_url
    kind, *parts = _split(endpoint)
    if kind in ("tcp", "tcp4", "tcp6"):
        named = dict(part.split("=", 1) for part in parts if "=" in part)
        places = [part for part in parts if "=" not in part]
        host = re.sub(r"\\(.)", r"\1", named.get("interface", ""))
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{named.get('port') or ''.join(places[:1])}"
    # Over TLS only content_url says by which name; systemd alone knows its ports.
    return f"unix:{config.home}/content.sock"


def endpoint_fault(endpoint: str) -> str:
    """What is wrong with the form of an endpoint string; empty: nothing."""
    kind, colon, rest = endpoint.partition(":")
    if not colon or not rest:
        return "an endpoint is written kind:arguments, such as tcp:9000 or unix:{home}/qm.sock"
    if kind not in _ENDPOINT_KINDS:
        return f"{kind!r} is not a kind of endpoint"
    return ""
