"""``lcc-admin fetch``: what it shows, and that it leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lcc.admin.cache.fetch import Account, as_object
from lcc.fetchers.registry import installed_plugins
from lcc.model import Fetched, FetchOrder, FetchStep
from lcc.storage.disk.fetch_sinks import MeasuringSink

BIN = Path(sys.executable).parent


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answers = {
            "/old": (302, [("Location", "/new")], b""),
            "/away": (302, [("Location", "http://127.0.0.1:9/")], b""),
            "/new": (200, [("Content-Type", "text/plain; charset=utf-8"), ("X-Odd", "\x9b31mred")], b"new page\n"),
        }
        status, headers, body = answers.get(self.path, (404, [], b"no"))
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body))), ("Set-Cookie", "a=b")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch(folder: Path, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [BIN / "lcc-admin", "fetch", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == expect, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_everything_is_told_and_nothing_is_left(site: str, tmp_path: Path) -> None:
    done = fetch(tmp_path, "--allow-private", "--json", f"{site}/old")
    told = json.loads(done.stdout)
    assert (told["code"], told["status"], told["url"], told["final_url"]) == (0, 200, f"{site}/old", f"{site}/new")
    assert (told["size"], told["mimetype"], told["charset"]) == (9, "text/plain", "utf-8")
    assert told["md5"] == hashlib.md5(b"new page\n").hexdigest()
    names = [step["name"] for step in told["steps"]]
    assert names == [
        *("connected", "request", "first-byte", "response", "redirect"),
        *("reused", "request", "first-byte", "response"),
    ]
    assert told["steps"][1]["lines"][0] == "GET /old HTTP/1.1"
    assert {"Location: /new", "Set-Cookie: a=b"} <= set(told["steps"][3]["lines"])
    assert told["steps"][4]["detail"] == f"{site}/new"
    times = [step["ms"] for step in told["steps"]]
    assert times == sorted(times)
    assert told["timings_ms"]["resolve"] is None and told["timings_ms"]["tls"] is None
    assert list(tmp_path.iterdir()) == []


def test_for_a_person(site: str, tmp_path: Path) -> None:
    shown = fetch(tmp_path, "--allow-private", f"{site}/new").stdout
    assert "GET /new HTTP/1.1" in shown and "response    200" in shown
    assert "content     9 bytes, text/plain; charset=utf-8, md5 " in shown
    assert "times       resolve -, connect " in shown
    assert "\x9b" not in shown and "X-Odd: \N{REPLACEMENT CHARACTER}31mred" in shown


def test_errors_have_their_code(site: str, tmp_path: Path) -> None:
    assert "1305 address-forbidden" in fetch(tmp_path, f"{site}/new", expect=1).stdout
    assert "404 http-404" in fetch(tmp_path, "--allow-private", f"{site}/none", expect=1).stdout
    assert "1407 redirect-outside" in fetch(tmp_path, "--allow-private", f"{site}/away", expect=1).stdout
    told = json.loads(fetch(tmp_path, "--allow-private", "--json", f"{site}/none", expect=1).stdout)
    assert (told["code"], told["status"], told["md5"]) == (404, 404, "") and told["wire"] > 0
    assert "Invalid value for URL" in fetch(tmp_path, "www.example.org", expect=2).stderr
    assert "no LCC here" in fetch(tmp_path, "--provider", "1", f"{site}/new", expect=4).stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lcc.toml").write_text('[bot]\nfetchers = ["wais"]\n')
    told, then = fetch(tmp_path, f"{site}/new", expect=1).stderr.splitlines()
    installed = [plugin.name for plugin in installed_plugins()]
    assert told == f"Error: bot.fetchers: there is no fetcher 'wais'; there are {', '.join(installed)}"
    assert then.startswith("Next: ")


def test_the_content_may_be_kept(site: str, tmp_path: Path) -> None:
    fetch(tmp_path, "--allow-private", "--output", "page", f"{site}/new")
    assert (tmp_path / "page").read_text() == "new page\n"
    done = fetch(tmp_path, "--allow-private", "--output", "-", f"{site}/new")
    assert done.stdout == "new page\n" and "response    200" in done.stderr
    assert "1410 store-failed" in fetch(tmp_path, "--allow-private", "-o", "no/such", f"{site}/new", expect=1).stdout


def test_with_the_rights_of_a_provider(site: str, tmp_path: Path) -> None:
    def admin(*arguments: str) -> None:
        subprocess.run([BIN / "lcc-admin", *arguments], cwd=tmp_path, capture_output=True, timeout=60, check=True)

    admin("init")
    admin("provider", "add", "--root", f"{site}/ne", "--allow-private")
    admin("provider", "add", "--root", f"{site}/")
    assert "content     9 bytes" in fetch(tmp_path, "--provider", "1", f"{site}/new").stdout
    outside = fetch(tmp_path, "--provider", "1", f"{site}/old", expect=1)
    assert "is outside the roots of provider 1" in outside.stderr
    assert "1305 address-forbidden" in fetch(tmp_path, "--provider", "2", f"{site}/new", expect=1).stdout
    assert "there is no provider 3" in fetch(tmp_path, "--provider", "3", f"{site}/new", expect=1).stderr
    fetch(tmp_path, "--provider", "1", "--insecure", f"{site}/new", expect=2)


def test_times_of_redirects_are_added_up() -> None:
    steps = [
        FetchStep("resolved", 10.1),
        FetchStep("connected", 10.3),
        FetchStep("secured", 10.6),
        FetchStep("request", 10.6),
        FetchStep("first-byte", 11.0),
        FetchStep("redirect", 11.0),
        FetchStep("reused", 11.0),
        FetchStep("first-byte", 11.5),
    ]
    account = Account(MeasuringSink(), began=10.0, ended=12.0, steps=steps, fetched=Fetched(200, "http://h/"))
    assert as_object(account, FetchOrder(0, "http://h/"))["timings_ms"] == {
        "resolve": 100.0,
        "connect": 200.0,
        "tls": 300.0,
        "first_byte": 900.0,
        "total": 2000.0,
    }
