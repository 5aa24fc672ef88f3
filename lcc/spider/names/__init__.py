"""The names of a URL: curl compares, furl fetches as linked."""

from __future__ import annotations

from lcc.errors import ConfigError
from lcc.model.spider.candidates import Names
from lcc.spider.names.host_resolver import HostResolver
from lcc.spider.names.presets import PRESETS


class UrlNames:
    """Names the URLs of a crawl.

    :param preset: of :data:`lcc.spider.names.presets.PRESETS`.
    :raises ConfigError: there is no such preset.
    """

    def __init__(self, preset: str = "safe", resolver: HostResolver | None = None) -> None:
        if preset not in PRESETS:
            raise ConfigError([f"there is no preset {preset[:80]!r} of names; there are {', '.join(PRESETS)}"])
        self._compared = PRESETS[preset]
        self._resolver = resolver

    def names(self, furl: str) -> Names:
        """Both names of a URL, and its host.

        :param furl: normal (:func:`lcc.domain.urls.normalise`), without fragment; as links have it.
        """
        start = furl.index("://") + 3
        end = furl.index("/", start)
        host = furl[start:end]
        rest = furl[end:]
        compared = host
        if self._resolver is not None:
            compared = self._resolved(host)
        if self._compared is not None:
            rest = self._compared(rest)
        elif compared is host:
            return Names(furl, furl, host)
        return Names(f"{furl[:start]}{compared}{rest}", furl, host)

    def _resolved(self, host: str) -> str:
        assert self._resolver is not None
        if ":" not in host:
            return self._resolver.resolve(host)
        name, colon, port = host.rpartition(":")
        return host if host.startswith("[") else f"{self._resolver.resolve(name)}{colon}{port}"
