"""``lcc-admin register``: both steps from the shell, and the operator's word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from click.testing import Result
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread, deferToThread

from lcc.admin.accounts import register
from lcc.storage.providers.passwords import verify_password
from lcc.storage.providers.providers import get_provider
from tests.support.admin import Lcc
from tests.support.servers.web_site import WebSite

BIN = Path(sys.executable).parent


@pytest.fixture
def web() -> Iterator[WebSite]:
    made = WebSite()
    yield made
    made.stop()


@pytest.fixture
def shell(lcc: Lcc, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """An LCC where sites on loopback may register, and wait for the operator."""

    def react(run: Callable[..., Coroutine[Any, Any, None]]) -> None:
        # The reactor of the tests runs already, and can be started once only.
        blockingCallFromThread(reactor, lambda: Deferred.fromCoroutine(run(reactor)))

    monkeypatch.setattr(register, "react", react)
    with lcc.config_path.open("a") as file:
        file.write("[rs]\nallow_private = true\nany_port = true\napproval = true\npriority_max = 1\n")
    return Shell(lcc)


class Shell:
    """Runs the commands."""

    def __init__(self, lcc: Lcc) -> None:
        self.lcc = lcc

    def run(self, *arguments: str, expect: int = 0) -> Result:
        return self.lcc.admin("register", *arguments, code=expect)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)


@pytest_twisted.ensureDeferred
async def test_the_whole_way(shell: Shell, lcc: Lcc, web: WebSite) -> None:
    await deferToThread(the_whole_way, shell, lcc, web)


def the_whole_way(shell: Shell, lcc: Lcc, web: WebSite) -> None:
    assert shell.run("list").stdout == "no registrations in progress\n"
    given = shell.json("ask", "--contact", "me@example.org", "--site", web.url, "--hours", "1-2", "--priority", "1")
    number = str(given["number"])
    missing = shell.run("check", number, expect=1)
    assert "404" in missing.stderr and given["urls"][0] in missing.stderr
    assert missing.stderr.endswith(f", then: lcc-admin register check {number}\n")
    unproven = shell.run("approve", number, expect=1)
    assert (
        "has not been found yet" in unproven.stderr
        and f"Next: put the file there, then: lcc-admin register check {number}\n" in unproven.stderr
    )
    assert "Next: lcc-admin register list" in shell.run("check", "999", expect=1).stderr
    web.files[f"/{given['file']}"] = given["secret"].encode()
    assert f"register approve {number}" in shell.run("check", number).stdout
    (row,) = lcc.rows("register", "list")
    assert (row["state"], row["contact"], row["hours"], row["priority"]) == ("proven", "me@example.org", "1-2", 1)
    assert given["secret"] not in str(row) and given["password"] not in str(row)
    assert "proven" in lcc.admin("register", "list").stdout
    done = shell.json("approve", number)
    provider = lcc.write(get_provider, done["pid"])
    assert verify_password(given["password"], provider.password_hash) and provider.roots == (web.url,)
    assert shell.json("approve", number) == shell.json("check", number) == done

    # A further root needs no password here; a new password needs a proof of both roots.
    more = shell.json("ask", "--root-of", str(done["pid"]), "--site", f"{web.url}b/")
    web.files[f"/b/{more['file']}"] = more["secret"].encode()
    shell.run("check", str(more["number"]))
    assert "a further root of provider" in shell.run("approve", str(more["number"])).stdout
    lost = shell.json("ask", "--password-of", str(done["pid"]), "--site", web.url)
    web.files[f"/{lost['file']}"] = lost["secret"].encode()
    assert "/b/" in shell.run("check", str(lost["number"]), expect=1).stderr
    web.files[f"/b/{lost['file']}"] = lost["secret"].encode()
    assert "new password" in shell.run("check", str(lost["number"])).stdout
    changed = lcc.write(get_provider, done["pid"])
    assert verify_password(lost["password"], changed.password_hash) and len(changed.roots) == 2


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest_twisted.ensureDeferred
async def test_for_people_and_what_cannot_be(shell: Shell, lcc: Lcc, web: WebSite) -> None:
    await deferToThread(for_people_and_what_cannot_be, shell, lcc, web)


def for_people_and_what_cannot_be(shell: Shell, lcc: Lcc, web: WebSite) -> None:
    lines = shell.run("ask", "--contact", "a@b", "--site", web.url).stdout.splitlines()
    names = [line.split(": ")[0] for line in lines]
    assert names == ["registration", "file", "secret", "url", "password", "expires", "then"]
    assert lines[-1] == "then: lcc-admin register check 1"
    faults = shell.run("ask", "--contact", "a b", "--site", "ftp://x/", "--priority", "2", expect=1).stderr
    assert "contact: " in faults and "site: " in faults and "priority: 0 to 1" in faults
    shell.run("ask", expect=2)
    shell.run("ask", "--site", web.url, "--root-of", "1", "--password-of", "1", expect=2)
    assert "--hours" in shell.run("ask", "--site", web.url, "--root-of", "1", "--hours", "1", expect=2).stderr
    assert "no provider 1" in shell.run("ask", "--site", web.url, "--root-of", "1", expect=1).stderr
    assert "mail server" in shell.run("ask", "--site", web.url, "--contact", "a@b", "--mail", expect=2).stderr
    for command in ("check", "approve", "remove"):
        assert "no" in shell.run(command, "99", expect=1).stderr
    lcc.admin("register", "remove", "1")
    assert lcc.rows("register", "list") == []


def test_without_an_lcc(tmp_path: Path) -> None:
    done = subprocess.run(
        [BIN / "lcc-admin", "register", "ask", "--contact", "a@b", "--site", "http://x/"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 4 and "no LCC here" in done.stderr
