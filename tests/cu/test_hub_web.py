"""``/atom`` and ``/hub`` over real sockets, with a callback that is a web server of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import pytest_twisted
from lxml import etree
from twisted.internet.threads import deferToThread

from lcc.config import parse_config
from lcc.domain.push.websub import signature_fault
from lcc.errors import ConfigError
from lcc.services import cu
from lcc.services.process.environment import real_environment
from tests.support.cache import Cache, add_user
from tests.support.databases import Backend
from tests.support.ports import free_port
from tests.support.roles.content_users import Api
from tests.support.servers.web_site import WebSite
from tests.support.waiting import until

from .test_hub import urls


@pytest.fixture
def site() -> Iterator[WebSite]:
    """A subscriber: it confirms, and keeps what it gets."""
    site = WebSite()

    def answer(path: str) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, parse_qs(urlsplit(path).query).get("hub.challenge", ["x"])[0].encode()

    site.files["*"] = answer
    yield site
    site.stop()


def subscribe(api: Api, headers: dict[str, str], **fields: str) -> tuple[int, bytes]:
    connection = api.connection()
    try:
        body = urlencode({f"hub.{name}": value for name, value in fields.items()})
        connection.request("POST", "/hub", body, {"Content-Type": "application/x-www-form-urlencoded", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest_twisted.ensureDeferred
async def test_feeds_and_subscribers(backend: Backend, cache: Cache, site: WebSite) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    more = f'url = "{url}"\nhub = true\nhub_allow_private = true\nwithout_token = "nothing"'
    api = Api(backend, more, f"tcp:{port}:interface=127.0.0.1")
    try:
        cuid, token = add_user(cache, {1})
        basic = base64.b64encode(f"{cuid}:{token.partition('-')[2]}".encode()).decode()
        cache.put(1, "http://a.example.org/old")
        cache.delete(1, "http://a.example.org/gone")
        cache.put(2, "http://b.example.org/hidden")
        for authorization in (f"Bearer {token}", f"Basic {basic}"):
            reply = await api.get("/atom?prefix=http://a.example.org/", Authorization=authorization)
            assert (reply.status, urls(reply.body)) == (200, ["old", "-gone"])
        topic = f"{url}atom?prefix=http%3A%2F%2Fa.example.org%2F"
        assert reply.headers["link"] == f'<{topic}>; rel="self", <{url}hub>; rel="hub"'
        onwards = etree.fromstring(reply.body).find("{*}link[@rel='next']").get("href")
        cache.put(1, "http://a.example.org/new")
        reply = await api.get(onwards.removeprefix(url.rstrip("/")), Authorization=f"Bearer {token}")
        assert urls(reply.body) == ["new"]
        for path, status in (("/atom", 401), ("/atom?since=x", 401), ("/hub", 405)):
            assert (await api.get(path)).status == status
        assert (await api.get("/atom?since=x", Authorization=f"Bearer {token}")).status == 400
        assert (await api.get("/atom", Authorization="Basic !")).status == 401

        def ask(headers: dict[str, str], **fields: str) -> Any:
            return deferToThread(subscribe, api, headers, **fields)

        await until(lambda: "none" in dict(api.services.commands.est())["trouble of the hub"])
        asked = {"mode": "subscribe", "topic": topic, "callback": f"{site.url}cb", "secret": "s" * 199}
        assert (await ask({}, **asked))[0] == 401
        status, body = await ask({"Authorization": f"Basic {basic}"}, **{**asked, "lease_seconds": "0"})
        assert status == 400 and b"less than 60" in body
        while (await ask({"Authorization": f"Basic {basic}"}, **asked))[0] != 202:
            pass
        await until(lambda: "1 subscriber," in dict(api.services.commands.est())["hub"])
        cache.put(2, "http://a.example.org/hidden")
        cache.put(1, "http://a.example.org/newest")
        # What came just before the subscription may be told, too.
        await until(lambda: any(urls(body)[-1] == "newest" for _, _, body in site.posted))
        assert all(path == "/cb" and b"hidden" not in body for path, _, body in site.posted)
        _, headers, body = site.posted[-1]
        assert signature_fault("s" * 199, headers["X-Hub-Signature"], body) == ""
        names = [reading.metric.name for reading in api.services.metrics.readings()]
        assert len(names) == len(set(names)) and "lcc_cu_hub_deliveries" in names
    finally:
        await api.stop()


@pytest_twisted.ensureDeferred
async def test_without_a_hub(backend: Backend, cache: Cache) -> None:
    api = Api(backend)
    try:
        cache.put(1, "http://a.example.org/x?a=1&b=<")
        reply = await api.get("/atom?provider=1")
        assert urls(reply.body) == ["x?a=1&b=<"] and 'rel="hub"' not in reply.headers["link"]
        assert f"http://127.0.0.1:{api.port}/atom?provider=1" in reply.headers["link"]
        assert (await deferToThread(subscribe, api, {}))[0] == 404
    finally:
        await api.stop()


def test_a_hub_needs_an_address(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match=r"cu\.url"):
        cu.build(parse_config("[cu]\nhub = true", tmp_path), real_environment(object()))
