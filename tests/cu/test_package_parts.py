"""The parts of packages, each by itself: names, tar headers, the end mark, reading content ports."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.domain.keys import url_key
from lcc.export.endmark import EndMark, NotComplete
from lcc.roles.cu.packages.names import package_name
from lcc.roles.cu.packages.ports import BodyGone, BodyUnavailable, ContentPorts
from lcc.roles.cu.packages.tarball import tar_header

URLS = st.builds(
    lambda host, path: f"http://{host}/{path}",
    st.text("ab.:[]~-", max_size=80),
    st.text("ab/.%2eE~?#:*<>|\\ \x00\u00e9\ud800", max_size=400),
)
TYPES = st.sampled_from(["text/html", "text/plain", "image/png", "application/x-nothing", "", "application/pdf"])


@given(st.integers(1, 2**31 - 1), URLS, TYPES, URLS, TYPES)
def test_names_are_safe_and_unique(pid: int, url: str, mimetype: str, other_url: str, other_type: str) -> None:
    key = url_key(pid, url, mimetype)
    folder, name = package_name(pid, key, url, mimetype)
    assert len(folder) <= 155 and len(name) <= 100
    segments = [*folder.split("/"), name]
    assert segments[0] == str(pid) and len(segments) > 2
    for segment in segments:
        assert re.fullmatch(r"[A-Za-z0-9._+=@,%~-]+", segment) and not segment.endswith(".")
    assert "~" not in folder and name.count("~") == 1
    if (other_url, other_type) != (url, mimetype):
        assert package_name(pid, url_key(pid, other_url, other_type), other_url, other_type) != (folder, name)


@pytest.mark.parametrize(
    ("url", "mimetype", "expected"),
    [
        ("http://h/", "text/html", "index~.html"),
        ("http://h/a/b.HTM", "text/html", "b~.htm"),
        ("http://h/a/b.php?x=1", "text/html", "b.php%3Fx=1~.html"),
        ("http://h/photo.jpeg", "image/jpeg", "photo~.jpeg"),
        ("http://h/photo", "image/jpeg", "photo~.jpg"),
        ("http://h/x.tar.gz", "application/gzip", "x.tar.gz~.bin"),
        ("http://h/.hidden", "text/plain", ".hidden~.txt"),
    ],
)
def test_names_tell_what_is_in_them(url: str, mimetype: str, expected: str) -> None:
    _, name = package_name(1, url_key(1, url, mimetype), url, mimetype)
    assert re.sub("~[0-9a-f]{32}", "~", name) == expected


@given(
    st.from_regex(r"[a-z0-9/]{1,155}", fullmatch=True),
    st.from_regex(r"[a-z0-9]{1,100}", fullmatch=True),
    st.one_of(st.integers(0, 2**34), st.integers(0, 2**63)),
    st.integers(-(2**33), 2**35),
)
def test_tar_headers_are_what_tarfile_reads(folder: str, name: str, size: int, time: int) -> None:
    header = tar_header(folder, name, size, time)
    member = tarfile.TarInfo.frombuf(header, "ascii", "strict")
    assert (member.name, member.size, member.mode) == (f"{folder}/{name}", size, 0o644)
    assert member.mtime == min(max(time, 0), 8**11 - 1) and member.isfile() and len(header) == 512


ENDS = {
    "tar": lambda end: bytes(5000) + tar_header("manifest", "end.json", 9, 0) + end.ljust(512, b"\0") + bytes(1024),
    "warc": lambda end: b"WARC/1.1\r\nContent-Length: 9\r\n\r\n" + end.strip() + b"\r\n\r\n",
}


BEHIND = {"tar": 1024 + 512, "warc": 5}
"""Bytes without some of which the end mark is still whole, at most."""


@given(st.sampled_from(sorted(ENDS)), st.integers(1, 600), st.integers(0, 3), st.integers(0, 400_000), st.data())
def test_the_end_mark_is_found_however_it_arrives(
    kind: str, piece_bytes: int, members: int, filling: int, data: st.DataObject
) -> None:
    end = {"next": "abc.1.0.0", "files": 3}
    package = ENDS[kind](json.dumps(end).encode() + b"\n")
    if members:
        # Highly compressible: a few bytes give more than is unpacked at a time.
        package = b"".join([*[gzip.compress(bytes(filling))] * members, gzip.compress(package)])
    mark = EndMark(members > 0)
    for at in range(0, len(package), piece_bytes):
        mark.take(package[at : at + piece_bytes])
    assert mark.read() == end
    cut = EndMark(members > 0)
    cut.take(package[: data.draw(st.integers(0, len(package) - (1 if members else BEHIND[kind])))])
    with pytest.raises(NotComplete):
        cut.read()


def test_what_is_no_gzip() -> None:
    with pytest.raises(NotComplete, match="damaged"):
        EndMark(True).take(b"nonsense")


class Port:
    """Answers each connection with what it is told, then closes it."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            client, _ = self._socket.accept()
            with closing(client):
                if not self.answers:
                    return
                self.asked.append(client.recv(4096).split(b"\r\n")[0])
                client.sendall(self.answers.pop(0))

    def stop(self) -> None:
        self.answers.clear()
        with socket.create_connection(self._socket.getsockname()):
            pass
        self._thread.join()
        self._socket.close()


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    port.stop()


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def read(ports: ContentPorts, length: int = 5) -> bytes:
    into = io.BytesIO()
    ports.read(2, 7, length, into)
    return into.getvalue()


@pytest.mark.parametrize(
    ("sent", "error", "text"),
    [
        (answer("404 Not Found"), BodyGone, "404"),
        (answer("410 Gone"), BodyGone, "410"),
        (answer("503 Busy"), BodyUnavailable, "503"),
        (answer("200 OK", b"longer"), BodyUnavailable, "6 bytes instead of 5"),
        (answer("200 OK", b"hello")[:-2], BodyUnavailable, "cut off|Incomplete|truncated"),
        (b"", BodyUnavailable, "Remote end closed"),
        (b"nonsense\r\n\r\n", BodyUnavailable, "BadStatus"),
        (answer("307 There"), BodyUnavailable, "redirected to"),
        (answer("307 There", Location="file:///etc/passwd"), BodyUnavailable, "redirected to"),
        (answer("307 There", Location="http://[bad/2/7"), BodyUnavailable, "Invalid IPv6"),
    ],
)
def test_what_a_content_port_may_say(port: Port, sent: bytes, error: type[Exception], text: str) -> None:
    ports = ContentPorts(port.address, 10)
    port.answers = [sent]
    with pytest.raises(error, match=text):
        read(ports)
    port.answers = [answer("200 OK", b"hello")]
    assert read(ports) == b"hello"
    ports.close()


def test_sent_on_in_circles(port: Port) -> None:
    port.answers = [answer("307 There", Location=f"{port.address}/2/7", Connection="close")] * 20
    with pytest.raises(BodyUnavailable, match="too many redirects"):
        read(ContentPorts(port.address, 10))


def test_a_connection_that_was_closed_meanwhile_is_made_again(port: Port) -> None:
    port.answers = [answer("200 OK", b"hello")] * 3
    ports = ContentPorts(port.address, 10)
    assert [read(ports) for _ in range(3)] == [b"hello"] * 3
    assert port.asked == [b"GET /2/7 HTTP/1.1"] * 3
    ports.close()


def test_where_a_machine_was_is_remembered_until_it_moves(port: Port) -> None:
    other = Port()
    try:
        sent_on = answer("307 There", Location=f"{other.address}/2/7")
        port.answers = [sent_on, answer("200 OK", b"moved")]
        other.answers = [answer("200 OK", b"hello"), answer("200 OK", b"again"), answer("404 Not Found")]
        ports = ContentPorts(port.address, 10)
        assert [read(ports) for _ in range(3)] == [b"hello", b"again", b"moved"]
        assert len(port.asked) == 2 and len(other.asked) == 3
        ports.close()
    finally:
        other.stop()


def test_nothing_is_asked_after_an_abort(port: Port) -> None:
    ports = ContentPorts(port.address, 10)
    ports.abort()
    with pytest.raises(BodyUnavailable, match="aborted"):
        read(ports)
    assert port.asked == []
