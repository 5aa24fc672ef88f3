"""HTTP clients: one that keeps cookies and fills in forms, and what they get."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from functools import partial
from http.cookies import SimpleCookie
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import attrs
from lxml import html
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from tests.support.openapi import check_registration_reply

ANSWER_SECONDS = 30


@attrs.frozen
class Reply:
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        """The body as JSON lines."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def page(self) -> Any:
        """The page, as elements."""
        return html.fromstring(self.body.decode())

    def text(self, element_id: str) -> str:
        """What an element of the page says."""
        (found,) = self.page.xpath(f"//*[@id='{element_id}']")
        return " ".join(found.text_content().split())


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
        check_registration_reply(path, "GET" if body is None else "POST", reply)
        return reply

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
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
        return deferToThread(self.visitor.get, path, method)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Deferred[Reply]:
        return deferToThread(partial(self.visitor.post, path, fields, **headers))

    def raw(self, method: str, path: str, body: bytes, **headers: str) -> Deferred[Reply]:
        return deferToThread(partial(self.visitor.raw, method, path, body, **headers))

    def submit(self, reply: Reply, **filled: str) -> Deferred[Reply]:
        return deferToThread(partial(self.visitor.submit, reply, **filled))

    def api(self, path: str, body: Any = None) -> Deferred[Reply]:
        return deferToThread(self.visitor.api, path, body)
