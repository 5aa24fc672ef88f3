"""The console over real SSH: OpenSSH's client, and conch's."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.conch.client.knownhosts import KnownHostsFile
from twisted.conch.endpoints import SSHCommandClientEndpoint
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import formatEvent, globalLogPublisher
from twisted.python.filepath import FilePath

from lcc.console.credentials import with_password
from lcc.errors import ConfigError
from tests.support.ports import free_port

from .kit import PASSWORD, make_key, running

Steps = Any


@pytest.fixture
def log() -> Any:
    """What is logged."""
    lines: list[str] = []

    def observe(event: Any) -> None:
        lines.append(formatEvent(event) or "")

    globalLogPublisher.addObserver(observe)
    yield lines
    globalLogPublisher.removeObserver(observe)


@pytest_twisted.inlineCallbacks
def test_a_command_over_a_unix_socket(tmp_path: Path, log: list[str]) -> Steps:
    with running(tmp_path) as console:
        assert console.socket.stat().st_mode & 0o777 == 0o600
        out, err, code = yield console.ssh("est()")
        assert code == 0, err.decode()
        assert out.decode() == "state         at work\n              hostile \\x1b[2J\\u202e text\n"
        out, err, code = yield console.ssh("1 / 0")
        assert code == 1 and b"ZeroDivisionError" in out
        out, err, code = yield console.ssh("qm.answer, sorted(services)")
        assert code == 0 and out == b"(42, ['qm'])\n"
        while sum(line.endswith(" closed") for line in log) < 3:  # ssh may be gone before its end is seen here
            yield deferLater(reactor, 0.01)  # type: ignore[arg-type]  # the reactor module's type is not known
    begun = [line for line in log if line.endswith(" opened")]
    assert len(begun) == 3
    listed = subprocess.run(["ssh-keygen", "-lf", tmp_path / "key.pub"], capture_output=True, text=True, check=True)
    fingerprint = listed.stdout.split()[1]
    assert f"session of alice (key {fingerprint}) from user {os.geteuid()} of this machine" in begun[0]
    assert sum(line.endswith(" closed") for line in log) == 3, "no session ends twice"


@pytest_twisted.inlineCallbacks
def test_a_session_at_a_terminal(tmp_path: Path, log: list[str]) -> Steps:
    typed = "x = 20\nx + 1\nfor i in range(2):\n    print(i)\n\npause()\n1/0\nexit()\n"
    with running(tmp_path) as console:
        out, err, code = yield console.ssh(options=("-tt",), typed=typed.encode())
        text = out.decode().replace("\r", "")
        assert "help() lists the commands" in text
        assert "21\n" in text and "0\n1\n" in text and "ZeroDivisionError" in text and "until resume()" in text
        assert console.commands.paused
        assert code == 0, err
    assert any("alice (key SHA256:" in line and "pause() for qm" in line for line in log)


@pytest_twisted.inlineCallbacks
def test_a_command_whose_session_has_no_terminal_and_ends_with_its_input(tmp_path: Path) -> Steps:
    with running(tmp_path) as console:
        out, _err, code = yield console.ssh(options=("-T",), typed=b"print(6 * 7)\n")
        assert b"42" in out and code == 0


@pytest_twisted.inlineCallbacks
def test_output_is_bounded(tmp_path: Path) -> Steps:
    with running(tmp_path, "output_bytes_max = 5000") as console:
        out, _err, code = yield console.ssh("'x' * 10_000_000")
        assert code == 0 and len(out) < 5200 and b"truncated" in out
        out, _err, code = yield console.ssh("for i in range(100_000): print(i)")
        assert code == 0 and len(out) < 5200 and out.count(b"truncated") == 1


@pytest_twisted.inlineCallbacks
def test_what_goes_wrong_in_a_command_hurts_nobody(tmp_path: Path) -> Steps:
    with running(tmp_path) as console:
        for command, shown in (
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("raise GeneratorExit", "GeneratorExit"),
            ("import sys; sys.exit(3)", ""),
            ("exit()", ""),
            ("input()", "input() is not available"),
            ("(" * 1000 + ")" * 1000, "parentheses"),
            ("x = '\ud800'".encode("utf-8", "surrogatepass").decode("latin-1"), ""),
            ("print('\\ud800')", "\\ud800"),
            ("def f(): f()\nf()", ""),
            ("provider('nobody')", "nobody"),
            ("est('nobody')", "no role 'nobody' in this process"),
            ("class Bad:\n  def __repr__(self): raise ValueError('no repr')\n", ""),
            ("1 +", "SyntaxError"),
            ("if True:", "incomplete"),
            ("x" * 70_000, "at most 65536 bytes"),
            ("help(est)", "Engine status"),
        ):
            out, _err, _code = yield console.ssh(command)
            assert shown in out.decode(), command[:50]
        out, _err, code = yield console.ssh("est()")
        assert code == 0 and b"at work" in out


@pytest_twisted.inlineCallbacks
def test_only_keys_in_the_file_are_let_in(tmp_path: Path, log: list[str]) -> Steps:
    with running(tmp_path) as console:
        stranger = make_key(tmp_path / "stranger")
        _out, err, code = yield console.ssh("est()", key="stranger")
        assert (
            code == 255 and b"Permission denied (publickey)" in err
        )  # no password is asked for where there are none
        assert any("login of alice" in line and "by publickey rejected" in line for line in log)
        keys = tmp_path / "manhole-keys"
        # The change holds at once; a line with options is passed over.
        keys.write_text(f'command="true" {stranger}')
        _out, _err, code = yield console.ssh("est()", key="stranger")
        assert code == 255
        keys.write_text(f"no key at all\n{stranger}")
        _out, _err, code = yield console.ssh("est()", key="stranger")
        assert code == 0
        _out, _err, code = yield console.ssh("est()")
        assert code == 255


@pytest_twisted.inlineCallbacks
def test_a_file_that_others_can_write_counts_as_none(tmp_path: Path, logged_errors: Any) -> Steps:
    with running(tmp_path) as console:
        (tmp_path / "manhole-keys").chmod(0o666)
        _out, _err, code = yield console.ssh("est()")
        assert code == 255
        assert "is writable by others" in logged_errors.flush()[0]


@pytest_twisted.inlineCallbacks
def test_nothing_is_forwarded(tmp_path: Path, logged_errors: Any) -> Steps:
    with running(tmp_path) as console:
        for options in (("-N", "-R", "0:127.0.0.1:1"), ("-W", "127.0.0.1:1"), ("-s",)):
            strict = ("-o", "ExitOnForwardFailure=yes", *options)
            command = ("sftp",) if options == ("-s",) else ()
            _out, err, code = yield console.ssh(*command, options=strict)
            assert code != 0, err
        _out, _err, code = yield console.ssh("est()")
        assert code == 0
    assert len(logged_errors.flush("channel open failed")) == 1 and logged_errors.flush("Failed to get subsystem")


# Passwords.


class _Collect(Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.done: Deferred[bytes] = Deferred()

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: Any = None) -> None:
        self.done.callback(self.data)


class _AsksNobody:
    """The host is known, or wrong."""

    def prompt(self, text: bytes) -> Deferred[bool]:
        raise AssertionError(text)

    def warn(self, text: bytes) -> None:
        raise AssertionError(text)


def add_password(home: Path) -> None:
    path = home / "manhole-passwords"
    path.write_text(with_password("", "bob", PASSWORD, generated=False))
    path.chmod(0o600)


@pytest_twisted.inlineCallbacks
def test_a_password_with_conchs_own_client(tmp_path: Path, log: list[str]) -> Steps:
    add_password(tmp_path)
    port = free_port()
    with running(tmp_path, port=port):
        line = (tmp_path / "manhole-host-key.known").read_text()
        hosts = "".join(line.replace("lcc", name, 1) for name in (f"[127.0.0.1]:{port}", "127.0.0.1"))
        (tmp_path / "known").write_text(hosts)
        known = KnownHostsFile.fromPath(FilePath(str(tmp_path / "known")))
        endpoint = SSHCommandClientEndpoint.newConnection(
            reactor,
            b"est()",
            b"bob",
            b"127.0.0.1",
            port,
            keys=[],
            password=PASSWORD.encode(),
            knownHosts=known,
            ui=_AsksNobody(),
        )
        protocol = yield endpoint.connect(Factory.forProtocol(_Collect))
        data = yield protocol.done
        assert data.startswith(b"state         at work")
    assert any("session of bob (password) from 127.0.0.1 port" in line for line in log)
    assert not any(PASSWORD in line for line in log)


@pytest_twisted.inlineCallbacks
def test_wrong_passwords_are_refused_and_throttled(tmp_path: Path, log: list[str]) -> Steps:
    add_password(tmp_path)
    answer = tmp_path / "answer"
    answer.write_text('#!/bin/sh\ncat "$(dirname "$0")/said"\n')
    answer.chmod(0o700)
    options = ("-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1", "-o", "User=bob")
    with running(tmp_path, "failed_logins = 2\nlogin_window = 600") as console:
        for said, expected in ((PASSWORD, 0), ("wrong-1", 255), ("wrong-2", 255), (PASSWORD, 255)):
            (tmp_path / "said").write_text(said)
            _out, _err, code = yield console.ssh("est()", options=options, asks=str(answer))
            assert code == expected, said
        # Whoever has a key is not kept out by that.
        _out, _err, code = yield console.ssh("est()")
        assert code == 0
    assert sum("login of bob" in line and "rejected" in line for line in log) == 3
    assert not any("wrong-" in line or PASSWORD in line for line in log)


# Before the login.


def connect(console: Any) -> socket.socket:
    """A connection whose peer has not logged in."""
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(60)
    found.connect(str(console.socket))
    return found


def read_all(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-slow\r\n"])
@pytest_twisted.inlineCallbacks
def test_who_does_not_log_in_is_disconnected(tmp_path: Path, said: bytes, log: list[str]) -> Steps:
    with running(tmp_path, "login_timeout = 0.3") as console, connect(console) as silent:
        silent.sendall(said)
        data = yield deferToThread(read_all, silent)
        assert data.startswith(b"SSH-2.0-")
    assert any("timeout, closing" in line for line in log)


@pytest_twisted.inlineCallbacks
def test_an_idle_session_is_closed(tmp_path: Path) -> Steps:
    with running(tmp_path, "idle_timeout = 1") as console:
        _out, _err, code = yield console.ssh(options=("-N",))
        assert code == 255


@pytest_twisted.inlineCallbacks
def test_connections_are_bounded(tmp_path: Path, log: list[str]) -> Steps:
    with running(tmp_path, "connections_max = 2") as console:
        kept = [connect(console) for _ in range(2)]
        for connection in kept:
            yield deferToThread(connection.recv, 100)
        with connect(console) as third:
            data = yield deferToThread(read_all, third)
            assert data == b""
        for connection in kept:
            connection.close()
        while len(console.service._factory.connections):
            yield deferLater(reactor, 0.01)
        _out, _err, code = yield console.ssh("est()")
        assert code == 0
    assert any("connection refused" in line for line in log)


# Its start.


@pytest.mark.parametrize(
    "endpoint",
    ["tcp:2222", "tcp:2222:interface=0.0.0.0", "tcp6:2222:interface=\\:\\:", "systemd:domain=INET:index=0"],
)
def test_it_listens_on_this_machine_only(tmp_path: Path, endpoint: str) -> None:
    from lcc.config import parse_config
    from lcc.services.process.manhole import ManholeService

    escaped = endpoint.replace("\\", "\\\\")
    with pytest.raises(ConfigError, match="UNIX socket or on loopback"):
        parse_config(f'[manhole]\nlisten = "{escaped}"', tmp_path)
    with pytest.raises(ConfigError, match="UNIX socket or on loopback"):
        parse_config(f'[qm]\nmanhole = "{escaped}"', tmp_path)
    service = ManholeService(parse_config("", tmp_path), reactor, endpoint, (), None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="UNIX socket or on loopback"):
        service.startService()


def test_a_console_that_nobody_could_log_in_to_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "manhole-keys").write_text("")
    with pytest.raises(ConfigError, match="nobody can log in"), running(tmp_path):
        pass


def test_a_host_key_that_others_could_have_read_is_not_used(tmp_path: Path) -> None:
    with running(tmp_path):
        pass
    key = tmp_path / "manhole-host-key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="is readable by others"), running(tmp_path):
        pass


@pytest_twisted.inlineCallbacks
def test_several_roles_in_one_process(tmp_path: Path) -> Steps:
    with running(tmp_path, names=("qm", "cu")) as console:
        out, _err, code = yield console.ssh("est()")
        assert code == 0 and out.decode().splitlines()[0] == "--- qm" and "--- cu" in out.decode()
        out, _err, code = yield console.ssh("est('cu')")
        assert out == b"--- cu\nstate         well\n"
        out, _err, code = yield console.ssh("pause(); pause('cu')")
        assert code == 1 and b"cu has no pause()" in out and console.commands.paused
        out, _err, code = yield console.ssh("help()")
        assert b"est('qm')" in out
