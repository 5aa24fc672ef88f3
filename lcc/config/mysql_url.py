"""``mysql://user:password@host:port,host:port/name``: a database, and the servers that have it."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from attrs import field, frozen

FORM = (
    "mysql://user:password@host:port/name[?unix_socket=PATH]; in place of host:port, several with commas in between"
)
PORT = 3306


@frozen
class MysqlUrl:
    """
    :ivar servers: host and port of each, in the order in which they are tried.
    :ivar unix_socket: reached there instead; empty: over TCP.
    """

    servers: tuple[tuple[str, int], ...]
    user: str
    password: str = field(repr=False)
    name: str
    unix_socket: str


def parse_mysql_url(url: str) -> MysqlUrl:
    """
    :raises ValueError: it is not of this form.
    """
    scheme, _, rest = url.partition("://")
    authority, _, rest = rest.partition("/")
    name, _, query = rest.partition("?")
    options = parse_qs(query, strict_parsing=bool(query))
    if scheme != "mysql" or not name or set(options) - {"unix_socket"}:
        raise ValueError(FORM)
    login, _, hosts = authority.rpartition("@")
    user, _, password = login.partition(":")
    servers = tuple(_server(host) for host in hosts.split(","))
    (unix_socket,) = options.get("unix_socket", [""])
    return MysqlUrl(servers, unquote(user), unquote(password), unquote(name), unix_socket)


def mysql_password(url: str) -> str:
    """The password in the URL of a database; empty: it has none, or is none of ours."""
    try:
        return parse_mysql_url(url).password
    except ValueError:
        return ""


def _server(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if parts.netloc != text:
        raise ValueError(FORM)
    return parts.hostname or "localhost", parts.port or PORT
