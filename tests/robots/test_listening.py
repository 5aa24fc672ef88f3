"""The listening robot as a process of its own: what doc/fetchers.md shows, and what else a person may do."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lcc.protocols.typed import moment
from tests.support.waiting import PATIENCE_SECONDS

BIN = Path(sys.executable).parent
DOCUMENT = Path(__file__).parents[2] / "doc" / "fetchers.md"
GREETING_END = "<quit/> -->\n"


class _Pages(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """The robot does not always read a page of an error to its end."""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[str]:
    """A web server with the page of the transcript; its ``host:port``."""
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello\n")
    os.utime(folder / "hello.txt", (1_767_323_045, 1_767_323_045))
    with _Server(("127.0.0.1", 0), partial(_Pages, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


class Listening:
    """A listening robot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "bot.sock"
        configuration = folder / "lcc.toml"
        configuration.write_text(f'home = "home"\n[bot]\nlisten = "unix:{self.socket}:mode=600"\n')
        self._log = folder / "bot.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [BIN / "lcc-bot", "--listen", "--config", configuration], cwd=folder, stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.socket.exists():
            assert self._process.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.05)

    def log(self) -> str:
        return self._log.read_text()

    def person(self) -> Person:
        return Person(self.socket)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        assert "Traceback" not in self.log() and "Unhandled" not in self.log(), self.log()


class Person:
    """Somebody at the other end."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_SECONDS)
        end = time.monotonic() + PATIENCE_SECONDS
        while self._socket.connect_ex(str(path)):  # a socket is there a moment before it can be connected to
            assert time.monotonic() < end
            time.sleep(0.02)
        self._unread = ""

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def types(self, line: str) -> None:
        self._socket.sendall(line.encode() + b"\r\n")

    def reads(self, *ends: str) -> str:
        """Up to the first of these."""
        while True:
            for end in ends:
                found = self._unread.find(end)
                if found >= 0:
                    text, self._unread = self._unread[: found + len(end)], self._unread[found + len(end) :]
                    return text
            data = self._socket.recv(65536)
            assert data, f"closed after {self._unread!r}"
            self._unread += data.decode()

    def answer(self, line: str) -> str:
        """What the robot says to this line."""
        self.types(line)
        return self.reads("</done>\n", "/>\n", "</error>\n")

    def sends_no_more(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def reads_all(self) -> str:
        text = self._unread
        while data := self._socket.recv(65536):
            text += data.decode()
        return text


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[Listening]:
    robot = Listening(tmp_path)
    yield robot
    robot.stop()


def alike(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r' ms="[0-9]+"', "", text)  # none where it took no millisecond
    text = re.sub(r' wire="[0-9]+"', ' wire="N"', text)
    return re.sub(r'<header name="(Date|Server)">[^<]*<', r'<header name="\1">…<', text)


def test_the_transcript_of_the_documentation(robot: Listening, pages: str) -> None:
    blocks = re.findall(r"^```text\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (transcript,) = [block for block in blocks if block.startswith("$ telnet")]
    transcript = re.sub("\n {4,}", " ", transcript)  # lines that are broken for the page
    telnet, greeting, session = transcript.partition("<!--")
    assert telnet.splitlines()[0] == "$ telnet 127.0.0.1 9190"
    shown, _, session = (greeting + session).partition("\n")
    typed = [line for line in session.splitlines() if line.startswith(("<fetch", "<quit"))]
    assert len(typed) > 4 and typed[-1] == "<quit/>"
    with robot.person() as person:
        assert person.reads(GREETING_END) == f"{shown}\n"
        happened = ""
        for line in typed[:-1]:
            happened += f"{line}\n{person.answer(line.replace('127.0.0.1:8000', pages))}"
        person.types("<quit/>")
        assert person.reads_all() == ""
    expected, _, end = session.partition("<quit/>\n")
    assert alike(happened.replace(pages, "127.0.0.1:8000")) == alike(expected)
    assert end == "Connection closed by foreign host.\n"


def test_a_file_is_kept_under_its_name(robot: Listening, pages: str) -> None:
    fetch = f'<fetch url="http://{pages}/hello.txt" private="yes" file="%s"/>'
    with robot.person() as person:
        person.reads(GREETING_END)
        answer = person.answer(fetch % "hello")
        assert f'md5="{hashlib.md5(b"hello" + bytes([10])).hexdigest()}"' in answer and 'file="hello"' in answer
        kept = robot.folder / "home" / "fetched" / "hello"
        assert kept.read_text() == "hello\n"
        kept.write_text("mine")
        # Neither is a file written over, nor does a name lead elsewhere.
        for name in ("hello", "../x", "/tmp/x", ".hidden", "a/b", "x" * 101):
            assert 'code="1410"' in person.answer(fetch % name)
        assert kept.read_text() == "mine"
        assert [path.name for path in kept.parent.iterdir()] == ["hello"]
        assert 'code="404"' in person.answer(f'<fetch url="http://{pages}/none" private="yes" file="none"/>')
        assert not (kept.parent / "none").exists()


def test_slips_of_the_pen(robot: Listening, pages: str) -> None:
    fetch = f'<fetch url="http://{pages}/hello.txt" private="yes"/>'
    with robot.person() as person:
        person.reads(GREETING_END)
        assert 'code="1001"' in person.answer("<fetch/>")
        assert 'code="1002"' in person.answer("<feetch url='x'/>")
        assert 'code="1202"' in person.answer('<fetch url="www.example.org"/>')
        assert 'code="1210"' in person.answer(f'<fetch url="http://{pages}/" modified="yesterday"/>')
        assert 'code="1411"' in person.answer('<fetch url="gopher://h/"/>')
        assert 'code="1305"' in person.answer(f'<fetch url="http://{pages}/hello.txt"/>')
        assert 'code="1408"' in person.answer(fetch.replace("/>", ' mimetype="image/png"/>'))
        # Many at once, in pieces, on one line or several: one answer after the other.
        first, _, rest = fetch.partition(" private")
        person.types(fetch * 3 + first)
        for _ in range(3):
            assert 'code="0"' in person.reads("</done>\n")
        assert 'code="0"' in person.answer(f"private{rest}")
        person.types("not XML <at> all")
        assert 'code="1001"' in person.reads_all()


def test_what_is_no_xml_is_answered_at_once(robot: Listening) -> None:
    for before in ("", '<fetch url="x"/>'):
        with robot.person() as person:
            person.reads(GREETING_END)
            if before:
                person.answer(before)
            person.types("")
            assert "as in the greeting" in person.answer("help")
            assert person.reads_all() == ""
    with robot.person() as person:
        person.reads(GREETING_END)
        for line in ("", "<fetch", "url='x'"):  # one element on several lines
            person.types(line)
            time.sleep(0.05)
        assert 'code="1202"' in person.answer("/>")


def test_a_program_that_sends_all_and_closes_gets_all_answers(robot: Listening, pages: str) -> None:
    with robot.person() as person:
        person.types(f'<fetch url="http://{pages}/hello.txt" private="yes"/>' * 5)
        person.sends_no_more()
        assert person.reads_all().count('<done code="0"') == 5


def test_too_many_persons(robot: Listening) -> None:
    persons = [robot.person() for _ in range(8)]
    for person in persons:
        person.reads(GREETING_END)
    with robot.person() as late:
        assert 'code="1014"' in late.reads_all()
    persons[0].__exit__()
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        with robot.person() as next_one:
            if "LCC robot" in next_one.reads(GREETING_END, "</error>\n"):
                break
    else:
        raise AssertionError("no place became free")
    for person in persons[1:]:
        person.__exit__()


def test_stopping_ends_a_fetch_in_passage(tmp_path: Path) -> None:
    robot = Listening(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent, robot.person() as person:
        person.reads(GREETING_END)
        person.types(f'<fetch url="http://127.0.0.1:{silent.getsockname()[1]}/" private="yes"/>')
        accepted, _ = silent.accept()
        with accepted:
            assert accepted.recv(100).startswith(b"GET / ")
            robot.stop()


def test_an_endpoint_for_all_the_world_is_refused_or_warned_of(tmp_path: Path) -> None:
    from twisted.internet.testing import MemoryReactorClock
    from twisted.logger import LogLevel, globalLogPublisher

    from lcc.config import parse_config
    from lcc.errors import ConfigError
    from lcc.services.bot import build_listening
    from lcc.services.process.environment import real_environment

    heard: list[str] = []

    def observe(event: Any) -> None:
        if event.get("log_level") is LogLevel.warn:
            heard.append(event["endpoint"])

    globalLogPublisher.addObserver(observe)
    try:
        for endpoint in (
            "tcp:1:interface=127.0.0.1",
            "unix:x",
            "tcp6:1:interface=\\\\:\\\\:1",
            "tcp:1",
            "tcp:1:interface=1.2.3.4",
        ):
            text = f'[bot]\nlisten = "{endpoint}"\n[tls]\ninsecure = true\n'
            build_listening(parse_config(text, tmp_path), real_environment(MemoryReactorClock()))
    finally:
        globalLogPublisher.removeObserver(observe)
    assert heard == ["tcp:1", "tcp:1:interface=1.2.3.4"]
    with pytest.raises(ConfigError, match=r"bot\.listen = 'tcp:1': .* must be tls:"):
        build_listening(parse_config('[bot]\nlisten = "tcp:1"\n', tmp_path), real_environment(MemoryReactorClock()))
    build_listening(parse_config("", tmp_path), real_environment(MemoryReactorClock()))


@pytest.mark.parametrize(("seconds", "text"), [(0, "1970-01-01T00:00:00Z"), (None, ""), (10**15, "")])
def test_moments(seconds: int | None, text: str) -> None:
    assert moment(seconds) == text
