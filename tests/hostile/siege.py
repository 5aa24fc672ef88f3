"""A whole LCC of real processes under a crowd of hostile sockets at every port, while honest peers are served.

``make hostile-sockets`` runs it with 5,000 sockets and prints a table; a slice is in ``make test``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from lcc.protocols.cp_uns_client import init, set_begin, url_element
from lcc.protocols.hello import Hello
from lcc.protocols.notifiers import SetBegin, SetEnd, Watch
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.processes.system import OriginServer, System
from tests.support.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
ROLES = ("qm", "uns", "botm", "bot", "cu", "rs")
HONEST_PAGES = 3
CROWD_ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
"""Where the crowd comes from; the honest are at 127.0.0.1."""
GROWTH_BYTES_MAX = 150_000_000
"""That a process may have more at its worst than before the siege."""
BIG_ELEMENTS = 4000
"""In each set of the provider that has a password and means no good: 6 KB each."""


NOTICES = (
    Hello("spider", "hostile", epoch="e").open_tag()
    + "".join(Watch(number, "http://hostile.example/").to_xml() for number in range(50))
    + "".join(SetBegin(number, 99, "link").to_xml() + SetEnd(0).to_xml() for number in range(1, 500))
)


class Lines:
    """A process that prints lines of JSON, collected by a thread."""

    def __init__(self, *arguments: str) -> None:
        self.told: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(json.loads(line))

    def say(self, told: Any) -> None:
        """A line for its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._process.stdout.close()


@attrs.define
class Served:
    """How honest peers were served in some time.

    :ivar accepted: seconds from a set's beginning to its acceptance.
    :ivar connected: seconds to connect and log in.
    :ivar errors: sets that were not accepted, questions that were not answered.
    """

    accepted: list[float] = attrs.field(factory=list)
    connected: list[float] = attrs.field(factory=list)
    errors: list[str] = attrs.field(factory=list)
    questions: int = 0

    def percentile(self, share: float) -> float:
        """Of ``accepted``, in milliseconds."""
        ordered = sorted(self.accepted)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@attrs.define
class Outcome:
    """What a siege came to; memory by process, in bytes."""

    sockets: int
    before: Served
    during: Served
    after: Served
    memory_before: dict[str, int] = attrs.field(factory=dict)
    memory_peak: dict[str, int] = attrs.field(factory=dict)
    connected_max: int = 0
    attempts: int = 0
    log_bytes: int = 0
    big_sets: int = 0


class Siege:
    """The LCC, its honest peers, and the crowd.  The XML interface is reached over TLS."""

    def __init__(self, folder: Path) -> None:
        (folder / "www" / "honest").mkdir(parents=True)
        self.folder = folder
        for number in range(HONEST_PAGES):
            (folder / "www" / "honest" / f"{number}.html").write_text(f"<html>page {number}</html>")
        self.origin = OriginServer(folder / "www", folder / "requests.log", 0.0)
        self.lcc = folder / "lcc"
        self.lcc.mkdir()
        self.system = System(self.lcc, self.origin, None)
        names = ("qm", "notifiers", "botm-at-qm", "botm", "content", "http", "xml", "rs")
        self.ports = {"uns": self.system.port, **{name: free_port() for name in names}}
        self._write_config()
        self._trust = ssl.create_default_context(cafile=str(folder / "authority.pem"))
        self.site = self.system.add_site("honest")
        self.insider = self.system.add_site("insider", "--hours", "")
        self.honest: Lines | None = None

    def _write_config(self) -> None:
        at = {name: f"tcp:{port}:interface=127.0.0.1" for name, port in self.ports.items()}
        to = {name: f"tcp:127.0.0.1:{port}" for name, port in self.ports.items()}
        content = f"http://127.0.0.1:{self.ports['content']}"
        self.system.config.write_text(
            f'home = "home"\nmimetypes = ["text/*"]\n'
            f'[uns]\nlisten = "{at["uns"]}"\nconnect = "{to["qm"]}"\n'
            f'listen_notifiers = "{at["notifiers"]}"\nlisten_gateway = ""\n'
            f'[qm]\nlisten = "{at["qm"]}"\nlisten_botm = "{at["botm-at-qm"]}"\n'
            f'[botm]\nlisten = "{at["botm"]}"\nconnect = "{to["botm-at-qm"]}"\n'
            f'content_listen = "{at["content"]}"\ncontent_url = "{content}"\n'
            f'[bot]\nconnect = "{to["botm"]}"\nconcurrency = 8\n'
            f'[cu]\nlisten = "{at["http"]}"\nlisten_xml = "{at["xml"].replace("tcp:", "tls:")}"\n'
            f'content = "{content}"\nwithout_token = "content"\n'
            f'[rs]\nlisten = "{at["rs"]}"\n'
        )
        authority = Authority()
        (self.folder / "authority.pem").write_bytes(authority.pem())
        key, certificate = authority.issue("localhost", "127.0.0.1")
        home = self.lcc / "home" / "tls"
        home.mkdir(parents=True, exist_ok=True)
        (home / "public.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (home / "public.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (home / "public.key").chmod(0o600)

    # The honest.

    def start(self) -> None:
        """Start everything, and wait until the honest are served."""
        self.system.start(*ROLES)
        wait_for("the honest provider is served", self._publish_once)
        wait_for("who asks is answered", self._answered)
        names = [f"{number}.html" for number in range(HONEST_PAGES)]
        url, pid = self.site.url, str(self.site.pid)
        self.honest = Lines("tests.hostile.honest", str(self.system.port), pid, self.site.password, url, *names)

    def _publish_once(self) -> bool:
        return self.system.publish(self.site, expect=(0, 4)).returncode == 0

    def _answered(self) -> bool:
        served = Served()
        self._ask(served)
        return not served.errors

    def serve(self, seconds: float, sets: int) -> Served:
        """How the honest are served from now on, for so long, and until there were so many sets."""
        assert self.honest is not None
        served = Served()
        first = len(self.honest.told)
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(self.honest.told) - first < sets:
            self._ask(served)
            time.sleep(0.5)
        for told in self.honest.told[first:]:
            if "error" in told:
                served.errors.append(f"a set: {told['error']}")
            else:
                served.accepted.append(told["accepted"])
                served.connected.append(told["connected"])
        return served

    def _ask(self, served: Served) -> None:
        """An honest content user asks over HTTP, and over XML; somebody looks how to register."""
        served.questions += 3
        try:
            looking = http.client.HTTPConnection("127.0.0.1", self.ports["rs"], timeout=60)
            looking.request("GET", "/register")
            answer = looking.getresponse()
            if answer.status != 200 or b"<form" not in answer.read():
                served.errors.append(f"registration: {answer.status}")
            looking.close()
            asking = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=60)
            asking.request("GET", f"/urls?provider={self.site.pid}")
            answer = asking.getresponse()
            if answer.status != 200 or f"{HONEST_PAGES - 1}.html".encode() not in answer.read():
                served.errors.append(f"HTTP: {answer.status}")
            asking.close()
            plain = socket.create_connection(("127.0.0.1", self.ports["xml"]), 60)
            with self._trust.wrap_socket(plain, server_hostname="localhost") as wire:
                wire.sendall(XML_QUESTION)
                heard = b""
                while b"</lococa:answer>" not in heard:
                    piece = wire.recv(65536)
                    if not piece:
                        raise ConnectionError("closed")
                    heard += piece
        except (OSError, http.client.HTTPException) as error:
            served.errors.append(f"a question: {error!r}")

    # The hostile.

    @contextmanager
    def crowd(self, sockets: int) -> Iterator[Lines]:
        """So many hostile sockets, at all ports."""
        lines = Lines("tests.hostile.crowd")
        openings = {
            "uns": init(1, "wrong") * 2,
            "qm": Hello("uns", "hostile", epoch="e").open_tag(),
            "notifiers": NOTICES,
            "botm-at-qm": Hello("botm", "hostile", machine=99, run="h", capacity=1).open_tag(),
            "botm": Hello("bot", "hostile", capacity=1, run="h").open_tag(),
            "content": "GET /1/1 HTTP/1.1\r\nHost: a\r\n\r\n",
            "http": "GET /changes?since=0&wait=60 HTTP/1.1\r\nHost: a\r\n\r\n",
            "xml": XML_QUESTION.decode(),
            "rs": REGISTRATION,
        }
        ports = {
            name: {"number": number, "tls": name == "xml", "opening": openings[name]}
            for name, number in self.ports.items()
        }
        authority = str(self.folder / "authority.pem")
        lines.say({"ports": ports, "sockets": sockets, "addresses": CROWD_ADDRESSES, "authority": authority})
        try:
            yield lines
        finally:
            lines.stop()

    @contextmanager
    def big_sets(self) -> Iterator[list[int]]:
        """A provider that has a password tells elements of 6 KB, set after set; counts those that it could send."""
        going, count = threading.Event(), [0]
        root = self.insider.url
        filling = "x" * 2000
        elements = "".join(
            url_element({"c": f"{root}{number}/{filling}", "f": f"{root}{number}/{filling}", "b": f"{root}{filling}",
                         "m": "text/html", "hours": "0-23"})
            for number in range(BIG_ELEMENTS)
        )  # fmt: skip
        data = (init(self.insider.pid, self.insider.password) + set_begin(False, "") + elements).encode()

        def tell() -> None:
            while not going.is_set():
                try:
                    with socket.create_connection(("127.0.0.1", self.system.port), 60) as wire:
                        wire.sendall(data + b"</lococa:set>")
                        while b"</lococa:set_result>" not in wire.recv(65536):
                            pass
                        count[0] += 1
                except OSError:
                    going.wait(1)

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield count
        finally:
            going.set()
            thread.join(60)

    # What it costs.

    def memory(self, peak: bool) -> dict[str, int]:
        """Of each process, in bytes: now, or the most that it ever had."""
        field = "VmHWM:" if peak else "VmRSS:"
        found = {}
        for name, process in self.system.processes.items():
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith(field):
                    found[name] = int(line.split()[1]) * 1024
        return found

    def open_files(self) -> dict[str, int]:
        """Descriptors of each process."""
        return {
            name: len(list(Path(f"/proc/{each.pid}/fd").iterdir())) for name, each in self.system.processes.items()
        }

    def stop(self) -> None:
        """End what still runs."""
        if self.honest is not None:
            self.honest.stop()
            self.honest = None
        self.system.stop_all()
        self.origin.stop()


def besiege(folder: Path, sockets: int, seconds: float, sets: int, big: bool = True) -> Outcome:
    """Do it.

    :param seconds: the siege; a quarter of that before and after it.
    :param sets: that the honest provider must have told in each of these.
    :raises AssertionError: something is not as it must be.
    """
    siege = Siege(folder)
    try:
        siege.start()
        before = siege.serve(seconds / 4, sets)
        outcome = Outcome(sockets, before, Served(), Served(), siege.memory(False))
        files = siege.open_files()
        with siege.crowd(sockets) as crowd:
            wait_for("the crowd has gathered", lambda: crowd.told and crowd.told[-1]["attempts"] >= sockets)
            outcome.during = siege.serve(seconds, sets)
            if big:
                with siege.big_sets() as count:
                    more = siege.serve(seconds / 2, sets)
                outcome.big_sets = count[0]
                outcome.during.accepted += more.accepted
                outcome.during.connected += more.connected
                outcome.during.errors += more.errors
                outcome.during.questions += more.questions
            outcome.connected_max = max(sum(told["connected"].values()) for told in crowd.told)
            outcome.attempts = crowd.told[-1]["attempts"]
        outcome.memory_peak = siege.memory(True)
        outcome.after = siege.serve(seconds / 4, sets)
        wait_for(
            "the connections of the crowd are gone",
            lambda: all(count <= files[name] + 20 for name, count in siege.open_files().items()),
        )
        outcome.log_bytes = sum((siege.lcc / f"{name}.log").stat().st_size for name in ROLES)
        assert siege.honest is not None
        siege.honest.stop()
        siege.honest = None
        for served in (outcome.before, outcome.during, outcome.after):
            assert not served.errors, served.errors[:5]
            assert len(served.accepted) >= sets
        for name, peak in outcome.memory_peak.items():
            assert peak - outcome.memory_before[name] < GROWTH_BYTES_MAX, f"{name} grew to {peak} bytes"
        siege.system.assert_serial()
        for role in ROLES:
            siege.system.stop(role)
        return outcome
    finally:
        siege.stop()


def table(outcome: Outcome) -> str:
    """For people, in Markdown."""
    lines = [
        f"{outcome.sockets} hostile sockets, {outcome.connected_max} of them connected at once at most, "
        f"{outcome.attempts} connections tried; {outcome.big_sets} sets of {BIG_ELEMENTS} elements of 6 KB; "
        f"logs {outcome.log_bytes // 1024} KiB",
        "",
        "| honest provider | sets | set to accepted: p50 | p99 | most | not served |",
        "|---|---|---|---|---|---|",
    ]
    for name, served in (("before", outcome.before), ("during", outcome.during), ("after", outcome.after)):
        figures = " | ".join(f"{served.percentile(share):.0f} ms" for share in (0.5, 0.99, 1.0))
        lines.append(f"| {name} | {len(served.accepted)} | {figures} | {len(served.errors)} |")
    lines += ["", "| process | memory before | most |", "|---|---|---|"]
    for name, peak in outcome.memory_peak.items():
        lines.append(f"| {name} | {outcome.memory_before[name] >> 20} MiB | {peak >> 20} MiB |")
    return "\n".join(lines)


XML_QUESTION = b'<lococa:query xmlns:lococa="http://www.lococa.org/1.0" since="0" limit="2"/>\n'
_BODY = '{"contact": "a@b", "site": "http://hostile.example/"}'
REGISTRATION = (
    "POST /api/registrations HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_BODY)}\r\n\r\n{_BODY}"
)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the siege lasts")
    parser.add_argument("--sets", type=int, default=200, help="that the honest provider tells at least in each phase")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < options.sockets + 1000:
        print(f"{options.sockets} sockets need a higher limit of open files than {hard}", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, options.sockets + 1000), hard))
    folder = Path(tempfile.mkdtemp(prefix="lcc-siege-"))
    try:
        print(table(besiege(folder, options.sockets, options.seconds, options.sets)))
    except BaseException:
        print(f"what is left of it: {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
