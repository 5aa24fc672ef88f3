"""The whole search server over a real lcc-cu, with pages that a test tells."""

from __future__ import annotations

import hashlib
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from lcc.config import parse_config
from lcc.services import search
from lcc.services.process.environment import real_environment
from lcc.storage.providers.passwords import hash_password
from lcc.storage.providers.web_users import WebUser, set_web_user
from lcc.transport.links import PortService
from tests.support.browser import Browser
from tests.support.cache import Cache
from tests.support.databases import Backend
from tests.support.roles.content_users import Api
from tests.support.servers.content_host import ContentHost
from tests.support.waiting import until

A, B = "http://www.example.org/", "http://other.example.net/"
HOSTILE = "<script>alert(1)</script>'&\"<b onclick=x>"
"""What must never be seen as markup in a page."""
PASSWORD = "correct horse"


class Searching:
    """The search server with a real port, which follows a real lcc-cu.

    :param more: further lines of its section of the configuration.
    """

    def __init__(self, backend: Backend, api: Api, cache: Cache, host: ContentHost, more: str) -> None:
        text = f"""
            home = "."
            [database]
            url = "{backend.url}"
            [search]
            listen = "tcp:0:interface=127.0.0.1"
            cache = "http://127.0.0.1:{api.port}"
            workers = 1
            commit_interval = 0
            {more}
        """
        self.cache = cache
        self.host = host
        self.services = search.build(parse_config(text, backend.home), real_environment(reactor))
        self.services.startService()

    @property
    def engine(self) -> Any:
        return self.services.commands.engine

    @property
    def port(self) -> int:
        (port,) = (each.bound_port.getHost().port for each in self.services if isinstance(each, PortService))
        return int(port)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()  # type: ignore[no-any-return]

    def put(self, curl: str, data: str | bytes, pid: int = 1, mimetype: str = "text/html", **more: Any) -> None:
        """Put a page into the cache."""
        content = data.encode() if isinstance(data, str) else data
        md5 = hashlib.md5(content).hexdigest()
        self.cache.put(pid, curl, mimetype, len=len(content), md5=md5, fetched_fileid=self.host.add(content), **more)

    async def indexed(self) -> None:
        """Wait until all changes are in the index."""
        last = self.cache.change

        def is_there() -> bool:
            token = str(self.engine.index.token)
            return bool(token) and int(token.split(".")[1]) >= last and self.engine.index.state.complete

        await until(is_there)

    def browser(self, **headers: str) -> Browser:
        return Browser(self.port, headers)

    def add_web_user(self, name: str = "ann") -> None:
        user = WebUser(name, hash_password(PASSWORD, generated=True), False, 1)
        self.cache.database.now(set_web_user, user)


def article(title: str, text: str, more: str = "") -> str:
    """A page."""
    return f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><p>{text}</p>{more}</html>'
