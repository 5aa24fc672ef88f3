"""Sites of those who register: which folder a URL means, where the secret goes, where its fetch may lead.

Who can put a file into a folder of a web site can put others there, and below it: the folder becomes a root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lcc.domain.urls import URL_CHARS, followed_redirect, normalise_root, scheme_of
from lcc.errors import FetchError, UrlError
from lcc.numbers import parse_number

SCHEMES = {"http": 80, "https": 443}
"""What a site may be reached by, with the usual ports."""
Follow = Callable[[str, str], str]
FILE_NAME_CHARS = 64
"""At most, of the file with the secret."""


def site_folder(text: str, any_port: bool = False) -> str:
    """The folder of a web site that a URL means, normalised, with ``/`` at its end.

    The last part of a path that has no ``/`` behind it is a folder, too, unless it looks like a file: there is a dot
    in it (``http://host/~me`` is the folder ``~me``, ``http://host/index.html`` means its folder).

    :param any_port: other ports than the usual ones are allowed.
    :raises UrlError: it is no such URL.
    """
    text = text.strip()
    if len(text) > URL_CHARS - FILE_NAME_CHARS:
        raise UrlError("too-long", f"at most {URL_CHARS - FILE_NAME_CHARS} characters")
    url = normalise_root(text)
    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        raise UrlError("bad-scheme", "it must begin with http:// or https://")
    if "?" in url:
        raise UrlError("bad-url", "a folder has no question mark")
    if len(url) > URL_CHARS - FILE_NAME_CHARS:
        raise UrlError("too-long", f"at most {URL_CHARS - FILE_NAME_CHARS} characters")
    if not any_port and port_of(url) != SCHEMES[scheme]:
        raise UrlError("bad-url", "only the usual ports, 80 and 443, are allowed here")
    folder, slash, last = url.rpartition("/")
    return f"{folder}{slash}" if not last or "." in last else f"{url}/"


def file_in(folder: str, name: str) -> str:
    """The URL of a file in a folder.

    :param folder: as :func:`site_folder` gives it.
    """
    return folder + name


def host_of(normalised_url: str) -> str:
    """The host, with its port if that is not the usual one."""
    return normalised_url.partition("://")[2].partition("/")[0]


def name_of(normalised_url: str) -> str:
    """The host without its port."""
    return without_port(host_of(normalised_url))


def without_port(host: str) -> str:
    """The host of a normal URL without its port."""
    return host[: host.rindex("]") + 1] if host.startswith("[") else host.partition(":")[0]


def hosts_of(roots: Iterable[str]) -> tuple[str, ...]:
    """The hosts that normalised roots name, without ports; each once, sorted."""
    return tuple(sorted({name for root in roots if (name := name_of(root))}))


def port_of(normalised_url: str) -> int:
    """The port, the usual one included."""
    host = host_of(normalised_url)
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    return parse_number(port, 65535) if colon else SCHEMES[scheme_of(normalised_url)]


def is_provable(root: str) -> bool:
    """Whether a proof could give this root: it is a folder of a web site.

    :param root: normalised.
    """
    return scheme_of(root) in SCHEMES and root.endswith("/") and "?" not in root


def follow_on_host(any_port: bool) -> Follow:
    """The rule for redirects while a secret is fetched: the same host, and never from https back to http.

    Whoever runs another host must not be able to prove this one, nor the other way round; and a secret that is
    asked for over https must not be taken from somebody in between.

    :param any_port: redirects may lead to any port of the host; else to the usual ones.
    :return: as for :meth:`lcc.interfaces.IFetcher.fetch`.
    """

    def follow(url: str, location: str) -> str:
        target = followed_redirect(url, location)
        scheme = scheme_of(target)
        if scheme not in SCHEMES or name_of(target) != name_of(url):
            raise FetchError("redirect-elsewhere", target[:300])
        if scheme_of(url) == "https" and scheme != "https":
            raise FetchError("redirect-elsewhere", f"{target[:300]}, which is not secure any longer")
        if not any_port and port_of(target) != SCHEMES[scheme]:
            raise FetchError("redirect-elsewhere", f"{target[:300]}: only the usual ports are allowed")
        return target

    return follow
