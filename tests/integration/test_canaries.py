"""Secrets stand nowhere but where they were put: canaries, real processes, everything that the system wrote.

Each secret of the system gets a value that occurs nowhere else.  Then all of it runs, in ordinary ways and in failing
ones; at last everything that was written is searched for the canaries: the home folder, logs, what commands printed,
the database; and all command lines, all the time.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcc.testing.mariadb import PrivateMariaDb
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.processes.system import BIN, OriginServer, System
from tests.support.waiting import wait_for

from .scraping import ask

SITE_CUSTOMIZE = """
from twisted.internet.defer import setDebugging
setDebugging(True)  # tracebacks tell where each Deferred was made
"""


class Canaries:
    """Secrets by what they are."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def new(self, what: str) -> str:
        """A value that occurs nowhere else."""
        return self.add(what, f"canary{secrets.token_hex(12)}")

    def add(self, what: str, value: str) -> str:
        """A secret that something else has made."""
        assert len(value) >= 16
        self.values[what] = value
        return value

    def found_in(self, data: bytes) -> list[str]:
        """What stands in this, plainly or coded."""
        return [what for what, value in list(self.values.items()) if any(form in data for form in forms(value))]


def forms(value: str) -> Iterator[bytes]:
    """A secret as it could be written."""
    plain = value.encode()
    yield plain
    yield plain.hex().encode()
    for skipped in range(3):  # wherever it begins in a longer text
        yield base64.b64encode(plain[skipped:])[:-4]


class CommandLines:
    """Looks at the command lines of all processes all the time."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.looks = 0
        self.found: set[str] = set()

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.looks += 1
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    data = place.read_bytes()
                except OSError:
                    continue
                self.found |= {f"{what} in {data[:300]!r}" for what in self._canaries.found_in(data)}


class Printed:
    """Runs commands; keeps what they print.

    :ivar code: the exit code of the last one.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self.data = b""
        self.code = 0

    def run(self, *command: str, code: int | None = None, typed: bytes = b"", **environment: str) -> bytes:
        """Run a command of ours; gives what it printed.

        :param code: which exit code it must have; None: it does not matter.
        """
        done = subprocess.run(
            [BIN / command[0], *command[1:]],
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._system.folder,
            env={**self._system.environment, **environment},
            timeout=120,
            check=False,
        )
        self.code = done.returncode
        assert code is None or done.returncode == code, done.stdout.decode()
        self.data += b"$ " + " ".join(command[:2]).encode() + b"\n" + done.stdout
        return done.stdout


def talk(port: int, *pieces: bytes) -> bytes:
    """Say this to a port; gives what it answers."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for piece in pieces:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(65536):
            answer += data
    return answer


def everything_written(folder: Path, secret_files: set[Path]) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path not in secret_files:
            yield path, path.read_bytes()


@pytest.fixture
def server() -> Iterator[PrivateMariaDb]:
    """A server of this test's own: it is killed."""
    with PrivateMariaDb() as server:
        yield server


@pytest.fixture
def database_url() -> None:
    """The test makes its own."""


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture(params=["text", "json"])
def guarded(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    origin: OriginServer,
    server: PrivateMariaDb,
    canaries: Canaries,
) -> Iterator[System]:
    """An LCC with a secret of each kind; its log in each form."""
    folder = tmp_path / "lcc"
    folder.mkdir()
    password = canaries.new("the database's password")
    server.execute("CREATE DATABASE guarded")
    server.execute(f"CREATE USER lcc@localhost IDENTIFIED BY '{password}'")
    server.execute("GRANT ALL ON guarded.* TO lcc@localhost")
    url = f"mysql://lcc:{password}@localhost/guarded?unix_socket={server.socket}"
    customize = tmp_path / "site"
    customize.mkdir()
    (customize / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    extra = '[manhole]\nlisten = "unix:{home}/console.sock"\n[cu]\nlisten = "tcp:PORT:interface=127.0.0.1"\n'
    key, certificate, _ = Authority().write(tmp_path, "localhost")
    canaries.add("the key for TLS", key.read_text().splitlines()[2])
    listen = f"ssl:{free_port()}:interface=127.0.0.1:privateKey={key}:certKey={certificate}"
    extra = f'[manhole]\nlisten = "unix:{{home}}/console.sock"\n[cu]\nlisten = "{listen}"\n'
    extra += f'[metrics]\nlisten = "unix:{{home}}/metrics.sock"\n[log]\nformat = "{request.param}"\n'
    # Throttling is another test's: here the right password must be taken soon after many wrong ones.
    system = System(folder, origin, url, extra, {"uns": "failed_logins = 1000\n"})
    system.environment["PYTHONPATH"] = str(customize)
    yield system
    system.stop_all()


@pytest.mark.long
def test_no_secret_stands_anywhere(
    guarded: System, canaries: Canaries, tmp_path: Path, server: PrivateMariaDb
) -> None:
    system, home = guarded, guarded.folder / "home"
    printed = Printed(system)
    with CommandLines(canaries) as lines:
        ordinary_ways(system, printed, canaries, tmp_path)
        failing_ways(system, printed, canaries, tmp_path)
        database_away(system, printed, canaries, server)
        for path in ("/metrics", "/readyz", "/healthz"):
            printed.data += ask(home / "metrics.sock", path)[2]
        system.kill("all")  # what it had in hand stays as it is
        system.start("all")
        wait_for("it is back", lambda: log_of(system).count("Queue manager run") >= 2)
        system.stop("all")
    assert lines.looks > 100 and not lines.found
    assert len(canaries.values) == 8
    # Nothing of this is to be found by chance: the search does find them where they are.
    config = system.config.read_bytes()
    assert canaries.found_in(config) == ["the database's password"]
    assert canaries.found_in(base64.b64encode(b"xy" + config)) == ["the database's password"]

    assert not canaries.found_in(printed.data)
    known = {system.config, *(tmp_path / name for name in ("key.pem", "answer-said"))}
    known |= {path for path in (home / "manhole-host-key", tmp_path / "lcc" / "pwd") if path.exists()}
    written = dict(everything_written(system.folder, known))
    assert {path.name for path in written} >= {"all.log", "manhole-passwords", "manhole-keys"}
    if "json" in system.config.read_text():
        events = [json.loads(line) for line in log_of(system).splitlines()]
        assert any("fields" in event for event in events)
    for path, data in written.items():
        assert not canaries.found_in(data), path
    rows = "".join(
        repr(server.execute(f"SELECT * FROM guarded.`{table}`"))
        for (table,) in server.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema='guarded'"
        )
    )
    assert "sha256$" in rows and not canaries.found_in(rows.encode())


def log_of(system: System) -> str:
    return system.log("all")


def ordinary_ways(system: System, printed: Printed, canaries: Canaries, tmp_path: Path) -> None:
    """Everything with the right secrets."""
    pages = system.origin.root / "site"
    pages.mkdir()
    (pages / "a.html").write_text("<p>a</p>")
    chosen = canaries.new("a password that an operator chose")
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (system.folder / "home" / "manhole-keys").write_bytes(key.with_suffix(".pub").read_bytes())
    secret = canaries.new("the password of the console")
    printed.run("lcc-admin", "console-password", "bob", "--password-file=-", typed=secret.encode() + b"\n", code=0)
    out = printed.run(
        *("lcc-admin", "provider", "add", "--root", system.origin.url("other"), "--password-file=-", "--json"),
        typed=chosen.encode() + b"\n",
        code=0,
    )
    assert b'"pid"' in out and b"password" not in out
    site = system.add_site("site")  # its output, which shows the password once, is not kept
    canaries.add("a password that was generated", site.password)
    token = system.admin("user", "add", "somebody", "--json").split('"')[-2]
    canaries.add("a content user's token", token.partition("-")[2])
    system.start("all")
    wait_for("it is up", lambda: "Queue manager run" in log_of(system))
    host_key = (system.folder / "home" / "manhole-host-key").read_text().splitlines()
    canaries.add("the consoles' host key", host_key[3])
    system.publish_when_up(site)
    system.wait_cached(site)
    pwd = system.folder / "pwd"
    pwd.write_text(site.password + "\n")
    lcccp = ("lcccp", f"--uns=127.0.0.1:{system.port}", f"--pid={site.pid}", "--check")
    printed.run(*lcccp, "--pwd-file=pwd", code=0)
    printed.run(*lcccp, LCC_PASSWORD=site.password, code=0)
    printed.run(*lcccp, LCC_PASSWORD=chosen, code=3)
    commands = ["provider show 2", "status", "check", "provider list", "user list", "config --defaults", "queue"]
    for command in commands:
        printed.run("lcc-admin", *command.split(), code=0)
    options = ("--identity", str(key))
    for command in ("est()", "services", "help()", "qm.settings", "uns.open_sessions"):
        printed.run("lcc-admin", "console", *options, "lcc", command, code=0)


def failing_ways(system: System, printed: Printed, canaries: Canaries, tmp_path: Path) -> None:
    """Wrong secrets, which often are right ones mistyped or in the wrong place, and broken input around them."""
    wrong = canaries.new("a wrong password")
    uns = f"--uns=127.0.0.1:{system.port}"
    for pid in ("1", "2", "999"):
        printed.run("lcccp", uns, f"--pid={pid}", "--check", LCC_PASSWORD=wrong, code=3)
    opening = '<lococa:init xmlns:lococa="http://www.lococa.org/1.0">'
    for said in (
        f'{opening}<provider id="x" passwd="{wrong}"/></lococa:init>',
        f'{opening}<provider id="1" passwd="{wrong}" passwd="{wrong}"/></lococa:init>',
        f'{opening}<provider passwd="{wrong}"/></lococa:init>',
        f'{opening}<provider id="1" passwd="{wrong}">text</provider></lococa:init>',
        f'{opening}<provider id="1" passwd="{wrong}"',
        f'{opening}<provider id="1" passwd="{wrong}&bad;"/></lococa:init>',
        f'{opening}<provider id="1" passwd="{wrong * 5000}"/></lococa:init>',
    ):
        talk(system.port, said.encode())
    printed.run("lcccp", uns, "--pid=1", "--check", "--pwd-file=absent", code=2)
    printed.run("lcccp", uns, "--pid=1", "--check", "--pwd-file=absent", LCC_PASSWORD=wrong, code=2)
    asks = tmp_path / "answer"
    (tmp_path / "answer-said").write_text(wrong)
    asks.write_text('#!/bin/sh\ncat "$0-said"\n')
    asks.chmod(0o700)
    known = system.folder / "home" / "manhole-host-key.known"
    relay = f"{BIN}/python -m lcc.admin.processes.relay {system.folder}/home/console.sock"
    command = ["ssh", "-F", "none", "-o", f"ProxyCommand={relay}", "-o", f"UserKnownHostsFile={known}"]
    command += ["-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1", "bob@lcc", "est()"]
    environment = {**system.environment, "SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
    assert done.returncode == 255 and b"Permission denied" in done.stderr
    printed.data += done.stderr
    broken = system.folder / "broken.toml"
    texts = (
        "[database]\nurl = 'oracle://lcc:{}@localhost/lcc'",
        "[database]\nurl = 'mysql://lcc:{}@localhost:port/lcc'",
        "[database]\nurl = 'mysql://lcc:{}@[localhost/lcc'",
        "[database]\nurl = 'mysql://lcc:{}@localhost'",
        "[database]\nurl = ['mysql://lcc:{}@localhost/lcc']",
        "[database]\nurl = 'mysql://lcc:{}@localhost/lcc",
        "[database]\nurl = 'mysql://lcc:{}@localhost/lcc'\nurl = 'mysql://lcc:{}@localhost/lcc'",
        "[database]\nurl = 'mysql://lcc:{}@127.0.0.1:1/lcc'",
        f"[database]\nurl = 'mysql://lcc:{{}}@localhost/guarded?unix_socket={_socket_of(system)}'",
        "database = 'mysql://lcc:{}@localhost/lcc'",
    )
    for text in texts:
        broken.write_text(text.replace("{}", wrong))
        for subcommand in ("check", "status", "init"):
            printed.run("lcc-admin", "--config", "broken.toml", subcommand)
        if "127.0.0.1" not in text and "guarded" not in text:
            printed.run("lcc-cu", "--config", "broken.toml")
    broken.unlink()


def _socket_of(system: System) -> str:
    return system.config.read_text().partition("unix_socket=")[2].partition('"')[0]


def database_away(system: System, printed: Printed, canaries: Canaries, server: PrivateMariaDb) -> None:
    """Logins, and all else, while the database cannot be reached."""
    server.kill()
    uns = f"--uns=127.0.0.1:{system.port}"
    password = canaries.values["a password that was generated"]
    printed.run("lcccp", uns, "--pid=2", "--check", LCC_PASSWORD=password, code=3)
    printed.run("lcc-admin", "status")
    wait_for("it is noticed", lambda: "unavailable" in log_of(system))
    server.start_again()
    wait_for(
        "logins are possible again",
        lambda: not (printed.run("lcccp", uns, "--pid=2", "--check", LCC_PASSWORD=password), printed.code)[1],
    )


def test_the_password_on_the_command_line_is_hidden(tmp_path: Path) -> None:
    secret = f"canary{secrets.token_hex(12)}"
    command = [str(BIN / "lcccp"), "--uns=127.0.0.1:1", "--pid=1", "--pwd", secret, "--urlprefix=http://a/"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shown = Path(f"/proc/{process.pid}/cmdline")
    wait_for("it is hidden", lambda: b"lcccp" in shown.read_bytes() and secret.encode() not in shown.read_bytes())
    assert f"--pwd\0{'x' * len(secret)}\0--urlprefix=http://a/".encode() in shown.read_bytes()
    output, _ = process.communicate(b"", timeout=60)
    assert secret.encode() not in output
