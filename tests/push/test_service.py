"""The push server as a service: real sockets, real tables, and nobody else there; and its commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from lcc.config import parse_config
from lcc.errors import ConfigError
from lcc.services import all_roles, push
from lcc.services.process.environment import real_environment
from lcc.transport.links import PortService
from tests.support.browser import Browser
from tests.support.databases import Backend
from tests.support.servers.web_site import WebSite
from tests.support.waiting import until

LISTEN = 'listen = "tcp:0:interface=127.0.0.1"'
KEY = "abcdef0123456789"


def test_it_is_one_of_all_roles_when_it_listens(tmp_path: Path) -> None:
    for more, there in (("", False), (LISTEN, True)):
        config = parse_config(f'home = "."\n[push]\n{more}', tmp_path)
        roles = all_roles.build(config, real_environment(reactor))
        assert ("push" in {each.name for each in roles}) == there
    with pytest.raises(ConfigError, match=r"push\.listen"):
        push.build(parse_config('home = "."', tmp_path), real_environment(reactor))
    with pytest.raises(ConfigError, match="register, approve, refuse"):
        parse_config('[push]\nunknown_sites = "all"', tmp_path)


@pytest_twisted.ensureDeferred
async def test_a_key_is_fetched_and_waits_for_the_operator(backend: Backend) -> None:
    text = f'home = "."\n[database]\nurl = "{backend.url}"\n[push]\n{LISTEN}\nany_port = true\nallow_private = true'
    role = push.build(parse_config(text, backend.home), real_environment(reactor))
    site = WebSite()
    role.startService()
    try:
        await until(lambda: dict(role.commands.est())["push server"] == "accepts pushes")
        (port,) = (each.bound_port.getHost().port for each in role if isinstance(each, PortService))
        browser = Browser(port, {})
        site.files[f"/{KEY}.txt"] = KEY.encode()
        path = f"/indexnow?url={site.url}a&key={KEY}"
        reply = await browser.get(path)
        assert reply.status == 202
        report = f"/indexnow/report?host=127.0.0.1:{site.port}&key={KEY}"
        while (shown := (await browser.get(report)).json()["keys"][0])["state"] == "waiting":
            pass
        assert shown["state"] == "approval" and [each["state"] for each in shown["pushes"]] == ["waiting"]
        reply = await browser.get(path)
        assert reply.status == 202 and "approval" in reply.json()["reason"]
        await until(lambda: dict(role.commands.est())["waiting"] == "2 URLs for a proof, 0 URLs for the UNS")
        assert dict(role.commands.est())["UNS"] == "unreachable"
        names = [reading.metric.name for reading in role.metrics.readings()]
        assert len(names) == len(set(names)) and "lcc_push_urls_unproven" in names
        faults = {each.name: each.fault for each in role.metrics.conditions() if each.name != "database"}
        assert faults == {"notifying": "cannot reach the UNS's port of notifiers", "not-paused": ""}
        role.commands.pause()
        assert "PAUSED" in dict(role.commands.est())["push server"]
        assert (await browser.get(path)).status == 503
        role.commands.resume()
    finally:
        site.stop()
        await role.stopService()


ELSEWHERE = ("http://127.0.0.2:{port}/k.txt", "http://localhost:{port}/k.txt", "file:///etc/passwd", "/{key}.txt")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_keys_that_redirect(backend: Backend) -> None:
    """On their host they are followed; elsewhere, or in a circle, they prove nothing, and the report says so."""
    text = f'home = "."\n[push]\n{LISTEN}\nany_port = true\nallow_private = true'
    role = push.build(parse_config(text, backend.home), real_environment(reactor))
    site = WebSite()
    role.startService()
    try:
        await until(lambda: dict(role.commands.est())["push server"] == "accepts pushes")
        (port,) = (each.bound_port.getHost().port for each in role if isinstance(each, PortService))
        browser = Browser(port, {})
        for number, target in enumerate((*ELSEWHERE, "/real.txt")):
            key = f"{KEY}{number}"
            location = target.format(port=site.port, key=key)
            site.files[f"/{key}.txt"] = (301, {"Location": location}, b"")
            site.files["/k.txt"] = site.files["/real.txt"] = key.encode()  # where no redirect must find it
            assert (await browser.get(f"/indexnow?url={site.url}a&key={key}")).status == 202
            report = f"/indexnow/report?host=127.0.0.1:{site.port}&key={key}"
            while (shown := (await browser.get(report)).json()["keys"][0])["state"] == "waiting":
                pass
            refused = target != "/real.txt"
            assert shown["state"] == ("refused" if refused else "approval"), (target, shown)
            assert ("redirect" in shown["reason"]) == refused, shown
    finally:
        site.stop()
        await role.stopService()


PINGER = """
import sys
from index_now import IndexNowAuthentication, submit_url_to_index_now, submit_urls_to_index_now
endpoint, host, key, location, *urls = sys.argv[1:]
authentication = IndexNowAuthentication(host=host, api_key=key, api_key_location=location)
answers = [submit_urls_to_index_now(authentication, urls, endpoint)]
answers.append(submit_url_to_index_now(authentication, urls[0], endpoint))
print(*map(int, answers))
"""


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_pings_of_others(backend: Backend) -> None:
    """curl, and PyPI's index-now-for-python."""
    text = f'home = "."\n[push]\n{LISTEN}\nany_port = true\nallow_private = true'
    role = push.build(parse_config(text, backend.home), real_environment(reactor))
    site = WebSite()
    site.files[f"/{KEY}.txt"] = KEY.encode()
    role.startService()
    try:
        await until(lambda: dict(role.commands.est())["push server"] == "accepts pushes")
        (port,) = (each.bound_port.getHost().port for each in role if isinstance(each, PortService))
        endpoint, host = f"http://127.0.0.1:{port}/indexnow", f"127.0.0.1:{site.port}"
        urls = [f"{site.url}a?x=1&y=2", f"{site.url}b"]
        python = Path(sys.prefix) / "index-now" / "bin" / "python"
        assert python.exists(), "make venv installs it"
        said = await _run(str(python), "-c", PINGER, endpoint, host, KEY, f"{site.url}{KEY}.txt", *urls)
        assert said.splitlines()[-1] == "202 202"
        curl = ("curl", "--silent", "--write-out", "%{http_code}", "--output", "/dev/null")
        query = ("--get", "--data-urlencode", f"url={urls[0]}", "--data-urlencode", f"key={KEY}")
        assert await _run(*curl, *query, endpoint) == "202"
        body = json.dumps({"host": host, "key": KEY, "urlList": urls})
        header = ("--header", "Content-Type: application/json; charset=utf-8")
        assert await _run(*curl, *header, "--data-binary", body, endpoint) == "202"
        report = f"http://127.0.0.1:{port}/indexnow/report?host={host}&key={KEY}"
        shown = json.loads(await _run("curl", "--silent", report))
        assert sum(each["urls"] for key in shown["keys"] for each in key["pushes"]) == 6
    finally:
        site.stop()
        await role.stopService()


async def _run(*command: str) -> str:
    done = await deferToThread(subprocess.run, command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
