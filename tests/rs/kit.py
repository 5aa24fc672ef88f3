"""A registration server with a real port, sites to be registered, and a browser without JavaScript."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import attrs
from jsonschema import Draft202012Validator
from lxml import html
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from lcc.config import parse_config
from lcc.roles.rs.web.openapi import document
from lcc.services import rs
from lcc.services.environment import real_environment
from lcc.transport.links import PortService
from tests.conftest import Backend
from tests.cu.web import in_thread

PATIENCE_SECONDS = 30
Answer = tuple[int, dict[str, str], bytes]


class WebSite:
    """The web server of somebody who registers.

    :ivar files: path -> content, or what answers: status, header fields, content.
    :ivar asked: the paths that were asked for, in order.
    """

    def __init__(self, key: Path | None = None, certificate: Path | None = None) -> None:
        """
        :param key, certificate: speak TLS with these (PEM).
        """
        self.files: dict[str, bytes | Answer | Callable[[str], Answer]] = {}
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked.append(self.path)
                found = site.files.get(self.path, site.files.get("*", (404, {}, b"no such page\n")))
                if callable(found):
                    found = found(self.path)
                status, headers, content = (200, {}, found) if isinstance(found, bytes) else found
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if key is not None and certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@attrs.frozen
class Reply:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def page(self) -> Any:
        """The page, as elements."""
        return html.fromstring(self.body.decode())

    def text(self, element_id: str) -> str:
        """What an element of the page says."""
        (found,) = self.page.xpath(f"//*[@id='{element_id}']")
        return " ".join(found.text_content().split())


class Office:
    """The services of a registration server; by default sites on loopback may register.

    :param more: further lines of its section of the configuration.
    :param beyond: further sections.
    """

    def __init__(
        self,
        backend: Backend,
        more: str = "",
        listen: str = "tcp:0:interface=127.0.0.1",
        beyond: str = "",
        allow_private: bool = True,
        any_port: bool = True,
    ) -> None:
        text = f"""
            home = "."
            timezone = "UTC"
            [database]
            url = "{backend.url}"
            [rs]
            listen = "{listen}"
            any_port = {str(any_port).lower()}
            allow_private = {str(allow_private).lower()}
            {more}
            {beyond}
        """
        self.config = parse_config(text, backend.home)
        self.home: Path = backend.home
        self.services = rs.build(self.config, real_environment(reactor))
        self.services.startService()

    @property
    def port(self) -> int:
        (port,) = (each.bound_port.getHost().port for each in self.services if isinstance(each, PortService))
        return int(port)

    def stop(self) -> Deferred[Any]:
        return self.services.stopService()  # type: ignore[no-any-return]

    def browser(self, **headers: str) -> Browser:
        return Browser(self.port, headers)


class Visitor:
    """Keeps cookies, fills in forms, and knows nothing of scripts.

    :param headers: sent with each request.
    """

    def __init__(self, port: int, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        self.port = port
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.cookies: SimpleCookie = SimpleCookie()

    def get(self, path: str, method: str = "GET") -> Reply:
        return self._ask(method, path, b"", {})

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Reply:
        """Send fields to a path, without having seen the page."""
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, urlencode(fields).encode(), kind | headers)

    def raw(self, method: str, path: str, body: bytes, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask(method, path, body, named)

    def submit(self, reply: Reply, **filled: str) -> Reply:
        """Fill in the form of a page and send it, as a browser does."""
        (form,) = reply.page.forms
        fields = {name: value or "" for name, value in form.form_values()}
        unknown = set(filled) - {element.name for element in form.inputs if element.name}
        assert not unknown, f"the form has no {unknown}"
        return self.post(form.action, {**fields, **filled})

    def api(self, path: str, body: Any = None) -> Reply:
        """Ask the HTTP API; the answer must be one that its document tells of."""
        path = f"/api/registrations{path}"
        if body is None:
            reply = self._ask("GET", path, b"", {})
        else:
            reply = self._ask("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})
        check_reply(path, "GET" if body is None else "POST", reply)
        return reply

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        own = {"cookie": "; ".join(f"{name}={each.value}" for name, each in self.cookies.items())}
        try:
            connection.request(method, path, body or None, {**own, **self._headers, **headers})
            response = connection.getresponse()
            for name, value in response.getheaders():
                if name.lower() == "set-cookie":
                    self.cookies.load(value)
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            connection.close()


class Browser:
    """A visitor in another thread, so that the reactor can answer."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        self.visitor = Visitor(port, headers)

    @property
    def cookies(self) -> SimpleCookie:
        return self.visitor.cookies

    def get(self, path: str, method: str = "GET") -> Deferred[Reply]:
        return in_thread(self.visitor.get, path, method)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Deferred[Reply]:
        return in_thread(partial(self.visitor.post, path, fields, **headers))

    def raw(self, method: str, path: str, body: bytes, **headers: str) -> Deferred[Reply]:
        return in_thread(partial(self.visitor.raw, method, path, body, **headers))

    def submit(self, reply: Reply, **filled: str) -> Deferred[Reply]:
        return in_thread(partial(self.visitor.submit, reply, **filled))

    def api(self, path: str, body: Any = None) -> Deferred[Reply]:
        return in_thread(self.visitor.api, path, body)


def check_reply(path: str, method: str, reply: Reply) -> None:
    """A reply of the API must be one that its document tells of."""
    described = document("1")
    parts = path.removeprefix("/api/registrations").strip("/").split("/")
    shape = "/api/registrations" + "/{ticket}" * bool(parts[0]) + "/check" * (len(parts) > 1)
    operation = described["paths"][shape][method.lower()]
    assert str(reply.status) in operation["responses"], f"{method} {path}: {reply.status} is not described"
    schema = operation["responses"][str(reply.status)]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": described["components"]}).validate(reply.json())
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
