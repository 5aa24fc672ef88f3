"""What web servers do: well, and badly.

Each case is played in memory at every cut of its bytes, once on a real socket, and (the bad ones) as a URL of a whole
LCC.
"""

from __future__ import annotations

import gzip
import re
import zlib

import attrs
import brotli

from lcc.fetchers.codings import ZSTD_FRAMES_MAX, zstd

CLOSE, RESET, HANG, CUT = "close", "reset", "hang", "cut"
"""What a server does when it has answered: close, reset, wait for the next request, or (with TLS) close the socket
without saying so in TLS."""

OK = b"HTTP/1.1 200 OK\r\n"
GZIP = gzip.compress(b"hello", mtime=0)
NO_FRAME = b"\x50\x2a\x4d\x18\0\0\0\0"
"""A frame of zstd that is skipped."""
# Extra field, name, comment, header checksum (RFC 1952, section 2.3).
_HEAD = b"\x1f\x8b\x08\x1e\0\0\0\0\0\x03" + b"\x04\0ab\0\0" + b"name\0" + b"comment\0"
GZIP_WITH_NAME = _HEAD + (zlib.crc32(_HEAD) & 0xFFFF).to_bytes(2, "little") + GZIP[10:]


def reply(body: bytes = b"hello", status: str = "200 OK", *fields: str) -> bytes:
    """A response with a Content-Length."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def coded(body: bytes, coding: str) -> bytes:
    """A response in a content coding."""
    return reply(body, "200 OK", f"Content-Encoding: {coding}")


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@attrs.frozen
class Case:
    """One way to answer.

    :ivar sent: all bytes of the answer.
    :ivar then: what happens then.
    :ivar error: the name of the error that the fetch ends with; empty: it succeeds.
    :ivar content: then, the body.
    :ivar kept: the connection can be used again.
    :ivar forever: what it goes on to send, again and again.
    :ivar pace_seconds: the time from one of those to the next; 0: as fast as they are taken.
    """

    name: str
    sent: bytes
    then: str = HANG
    error: str = ""
    content: bytes = b"hello"
    kept: bool = False
    forever: bytes = b""
    pace_seconds: float = 0.0

    @property
    def slug(self) -> str:
        """The name as a piece of a URL."""
        return re.sub("[^a-z0-9]+", "-", self.name.lower()).strip("-")


GOOD = (
    Case("content-length", reply(), kept=True),
    Case("empty", reply(b""), content=b"", kept=True),
    Case("chunked", CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", kept=True),
    Case("chunk extensions", CHUNKED + b"5;a=b;c\r\nhello\r\n0;x\r\n\r\n", kept=True),
    Case("trailers", CHUNKED + b"5\r\nhello\r\n0\r\nContent-Encoding: gzip\r\nX: y\r\n\r\n", kept=True),
    Case("close-delimited", OK + b"\r\nhello", CLOSE),
    Case("close-delimited, empty", OK + b"\r\n", CLOSE, content=b""),
    Case("http/1.0", b"HTTP/1.0 200 OK\r\n\r\nhello", CLOSE),
    Case("http/1.0 with length", b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    Case("http/1.0 kept", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", kept=True),
    Case("connection close", reply(b"hello", "200 OK", "Connection: close")),
    Case("garbage behind the body", reply() + b"garbage"),
    Case("a second response", reply() + reply(b"evil!")),
    Case("garbage behind connection close", reply(b"hello", "200 OK", "Connection: close") + b"more"),
    Case("continue first", b"HTTP/1.1 100 Continue\r\n\r\n" + reply(), kept=True),
    Case("early hints", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 2 + reply(), kept=True),
    Case("no reason", b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", kept=True),
    Case("NUL in the reason, which is dropped", b"HTTP/1.1 200 O\0K\r\nContent-Length: 5\r\n\r\nhello", kept=True),
    Case("empty field", OK + b"X-Empty:\r\nContent-Length: 5\r\n\r\nhello", kept=True),
    Case("identity coding", reply(b"hello", "200 OK", "Content-Encoding: identity"), kept=True),
    Case("gzip", coded(GZIP, "gzip"), kept=True),
    Case("gzip, its old name, in capitals", coded(GZIP, " X-GZIP "), kept=True),
    Case("gzip in two members", coded(gzip.compress(b"he") + gzip.compress(b"llo"), "gzip"), kept=True),
    Case("gzip with all fields", coded(GZIP_WITH_NAME, "gzip"), kept=True),
    Case(
        "gzip in chunks",
        CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n%x\r\n" % len(GZIP) + GZIP + b"\r\n0\r\n\r\n",
        kept=True,
    ),
    Case("gzip until the connection ends", OK + b"Content-Encoding: gzip\r\n\r\n" + GZIP, CLOSE),
    Case("deflate, framed", coded(zlib.compress(b"hello"), "deflate"), kept=True),
    Case("deflate, bare", coded(zlib.compress(b"hello", wbits=-15), "deflate"), kept=True),
    Case("brotli", coded(brotli.compress(b"hello"), "br"), kept=True),
    Case("coded, empty", coded(b"", "gzip"), content=b"", kept=True),
    Case(
        "a gzip file that is called coded, too",
        reply(GZIP, "200 OK", "Content-Type: application/x-gzip", "Content-Encoding: gzip"),
        content=GZIP,
        kept=True,
    ),
    Case(
        "a cookie flood",
        reply(b"hello", "200 OK", *[f"Set-Cookie: a{number}={'x' * 20}" for number in range(30)]),
        kept=True,
    ),
    Case("a charset that is none", reply(b"hello", "200 OK", "Content-Type: text/html; charset=\xff;;="), kept=True),
    Case("a type that is none", reply(b"hello", "200 OK", f"Content-Type: {'a/' * 700}"), kept=True),
    Case("a time that is none", reply(b"hello", "200 OK", f"Last-Modified: {'9:' * 700}", "Date: ,"), kept=True),
    Case("an entity tag that is none", reply(b"hello", "200 OK", f'ETag: "{"x" * 1400}"'), kept=True),
    Case("a range of a whole", reply(b"hello", "200 OK", "Content-Range: bytes 0-4/999999999999"), kept=True),
    Case("gzip, many empty members", coded(gzip.compress(b"") * 400 + GZIP, "gzip"), kept=True),
    Case("zstd", coded(zstd.compress(b"hello"), "zstd"), kept=True),
    Case("an offer to upgrade", reply(b"hello", "200 OK", "Upgrade: h2c", "Connection: upgrade"), kept=True),
)

BAD = (
    Case("closed at once", b"", CLOSE, "connection-lost"),
    Case("reset at once", b"", RESET, "connection-lost"),
    Case("silence", b"", HANG, "idle-timeout"),
    Case("stops in the header", OK + b"Content-Le", HANG, "idle-timeout"),
    Case("stops in the body", OK + b"Content-Length: 5\r\n\r\nhel", HANG, "idle-timeout"),
    Case("stops in a chunk", CHUNKED + b"5\r\nhel", HANG, "idle-timeout"),
    Case("no end of chunks", CHUNKED + b"5\r\nhello\r\n", HANG, "idle-timeout"),
    Case("closes in the status line", b"HTTP/1.1 20", CLOSE, "early-eof"),
    Case("closes in the header", OK + b"Content-Length: 5\r\n", CLOSE, "early-eof"),
    Case("closes in the body", OK + b"Content-Length: 5\r\n\r\nhel", CLOSE, "early-eof"),
    Case("closes in a chunk", CHUNKED + b"5\r\nhel", CLOSE, "early-eof"),
    Case("closes before the last chunk", CHUNKED + b"5\r\nhello\r\n", CLOSE, "early-eof"),
    Case("closes after continue", b"HTTP/1.1 100 Continue\r\n\r\n", CLOSE, "early-eof"),
    Case("resets in a close-delimited body", OK + b"\r\nhel", RESET, "early-eof"),
    Case("header flood", OK + b"X-Flood: 0123456789\r\n" * 200, HANG, "headers-too-long"),
    Case("one long field", OK + b"X: " + b"y" * 4000, HANG, "headers-too-long"),
    Case("one long name", OK + b"X" * 4000, HANG, "headers-too-long"),
    Case("long header, whole response", OK + b"X: " + b"y" * 4000 + b"\r\n\r\n", CLOSE, "headers-too-long"),
    Case("long status line", b"HTTP/1.1 200 " + b"O" * 4000, HANG, "headers-too-long"),
    Case("continue for ever", b"HTTP/1.1 100 Continue\r\n\r\n" * 200, HANG, "headers-too-long"),
    Case("trailer flood", CHUNKED + b"0\r\n" + b"X-Flood: 0123456789\r\n" * 200, HANG, "headers-too-long"),
    Case("chunk extension flood", CHUNKED + b"5;" + b"x" * 4000, HANG, "headers-too-long"),
    Case("too long, told", OK + b"Content-Length: 10001\r\n\r\n", HANG, "body-too-long"),
    Case("too long, chunked", CHUNKED + (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 11, HANG, "body-too-long"),
    Case("too long, until close", OK + b"\r\n" + b"x" * 10_001, HANG, "body-too-long"),
    Case("garbage", b"\x16\x03\x01\x02\x00\x01\x00", HANG, "bad-response"),
    Case("an ssh server", b"SSH-2.0-OpenSSH_9.2p1\r\n", HANG, "bad-response"),
    Case("http/0.9", b"<html>hello</html>", CLOSE, "bad-response"),
    Case("version 0.9", b"HTTP/0.9 200 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("version 2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("version 1.7", b"HTTP/1.7 200 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("rtsp", b"RTSP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("shoutcast", b"ICY 200 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status 99", b"HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status 999", b"HTTP/1.1 999 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status 2000", b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status -1", b"HTTP/1.1 -20 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("NUL in a value", OK + b"X: a\0b\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("NUL in a name", OK + b"X\0: a\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("space before the colon", OK + b"Content-Length : 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("folded field", OK + b"X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("field without a colon", OK + b"nonsense\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("field without a name", OK + b": x\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("field of eight bits", OK + b"\xff\xfe: x\r\nContent-Length: 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("bare carriage return", OK + b"X: a\rContent-Length: 9\r\n\r\nhello", CLOSE, "bad-response"),
    Case("NULs for ever", b"\0" * 100, HANG, "bad-response"),
    Case("no space in the status line", b"HTTP/1.1200 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status of two digits", b"HTTP/1.1 20 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("status in words", b"HTTP/1.1 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("version without a dot", b"HTTP/11 200 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("in small letters", b"http/1.1 200 OK\r\n\r\nhello", CLOSE, "bad-response"),
    Case("bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", CLOSE, "bad-response"),
    Case("conflicting lengths", OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", CLOSE, "bad-response"),
    Case("negative length", OK + b"Content-Length: -5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("length with a sign", OK + b"Content-Length: +5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("hexadecimal length", OK + b"Content-Length: 0x5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("list of lengths", OK + b"Content-Length: 5, 5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("huge length", OK + b"Content-Length: 99999999999999999999\r\n\r\nhello", CLOSE, "bad-response"),
    Case("length with many zeros", OK + b"Content-Length: " + b"0" * 20 + b"5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("length with an underscore", OK + b"Content-Length: 0_5\r\n\r\nhello", CLOSE, "bad-response"),
    Case("length of other digits", OK + "Content-Length: \u0665\r\n\r\nhello".encode(), CLOSE, "bad-response"),
    Case("length and chunked", CHUNKED[:-2] + b"Content-Length: 5\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case(
        "chunked and length",
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CLOSE,
        "bad-response",
    ),
    Case("gzip, chunked", OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunked, gzip", OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case(
        "two transfer codings",
        OK + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CLOSE,
        "bad-response",
    ),
    Case("chunked twice", OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("nearly chunked", OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("quite chunked", OK + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunked, hidden", OK + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunked, folded", OK + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("transfer identity", OK + b"Transfer-Encoding: identity\r\n\r\nhello", CLOSE, "bad-response"),
    Case("bad chunk size", CHUNKED + b"five\r\nhello\r\n", CLOSE, "bad-response"),
    Case("negative chunk", CHUNKED + b"-5\r\nhello\r\n", CLOSE, "bad-response"),
    Case("huge chunk", CHUNKED + b"fffffffffffffffff\r\nhello\r\n", CLOSE, "bad-response"),
    Case("chunk longer than told", CHUNKED + b"3\r\nhello\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunk size as in C", CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunk size with a NUL", CHUNKED + b"5\0\r\nhello\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunk without a size", CHUNKED + b"\r\nhello\r\n0\r\n\r\n", CLOSE, "bad-response"),
    Case("chunks that end in line feeds", CHUNKED + b"5\nhello\n0\n\n", CLOSE, "bad-response"),
    Case("trailer without a colon", CHUNKED + b"0\r\nnonsense\r\n\r\n", CLOSE, "bad-response"),
    Case("switching protocols", b"HTTP/1.1 101 Switching\r\n\r\nhello", CLOSE, "bad-response"),
    Case(
        "switching for real",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
        CLOSE,
        "bad-response",
    ),
    Case("partial content", reply(b"hello", "206 Partial Content"), HANG, "bad-response"),
    Case("not modified", b"HTTP/1.1 304 Not Modified\r\n\r\n", HANG, "bad-response"),
    Case("not modified, with a body", reply(b"hello", "304 Not Modified"), HANG, "bad-response"),
    Case("several ranges", reply(b"", "206 P", "Content-Type: multipart/byteranges"), HANG, "bad-response"),
    Case("range that is none", reply(b"", "416 Range Not Satisfiable"), HANG, "http-416"),
    Case("compress", coded(b"hello", "compress"), HANG, "bad-coding"),
    Case("two codings", coded(gzip.compress(GZIP), "gzip, gzip"), HANG, "bad-coding"),
    Case("two fields of codings", coded(GZIP, "gzip\r\nContent-Encoding: br"), HANG, "bad-coding"),
    Case("not gzip", coded(b"hello", "gzip"), HANG, "coding-damaged"),
    Case("not brotli", coded(b"\xff" * 20, "identity, br"), HANG, "coding-damaged"),
    Case("not zstd", coded(b"hello", "zstd"), HANG, "coding-damaged"),
    Case("not deflate", coded(b"\xff" * 20, "deflate"), HANG, "coding-damaged"),
    Case("gzip with a wrong checksum", coded(GZIP[:-8] + b"\0" * 4 + GZIP[-4:], "gzip"), HANG, "coding-damaged"),
    Case("gzip with a wrong length", coded(GZIP[:-1] + b"\1", "gzip"), HANG, "coding-damaged"),
    Case("gzip with something behind it", coded(GZIP + b"more", "gzip"), HANG, "coding-damaged"),
    Case(
        "deflate with something behind it",
        coded(zlib.compress(b"hello") + b"more", "deflate"),
        HANG,
        "coding-damaged",
    ),
    Case("brotli with something behind it", coded(brotli.compress(b"hello") + b"more", "br"), HANG, "coding-damaged"),
    Case("gzip of another method", coded(b"\x1f\x8b\x07" + GZIP[3:], "gzip"), HANG, "coding-damaged"),
    Case("deflate with a dictionary", coded(b"\x78\xbb\0\0\0\1" + b"\xff" * 20, "deflate"), HANG, "coding-damaged"),
    Case("brotli with a large window", coded(b"\x11\x1e" + b"\0" * 20, "br"), HANG, "coding-damaged"),
    Case(
        "zstd of many frames",
        coded(NO_FRAME * (ZSTD_FRAMES_MAX + 1), "zstd"),
        HANG,
        "coding-damaged",
    ),
    Case("zstd with a huge window", coded(b"\x28\xb5\x2f\xfd\0\x88" + b"\0" * 9, "zstd"), HANG, "coding-damaged"),
    Case("gzip, cut off", coded(GZIP[:-1], "gzip"), HANG, "early-eof"),
    Case("gzip, only its first byte", coded(GZIP[:1], "gzip"), HANG, "early-eof"),
    Case("gzip, cut off in the second member", coded(GZIP + GZIP[:12], "gzip"), HANG, "early-eof"),
    Case("deflate, only its first byte", coded(zlib.compress(b"hello")[:1], "deflate"), HANG, "early-eof"),
    Case("brotli, cut off", coded(brotli.compress(b"hello")[:-1], "br"), HANG, "early-eof"),
    Case(
        "gzip that ends with the connection, cut off",
        OK + b"Content-Encoding: gzip\r\n\r\n" + GZIP[:-5],
        CLOSE,
        "early-eof",
    ),
    Case("gzip bomb", coded(gzip.compress(b"\0" * 1_000_000), "gzip"), HANG, "body-too-long"),
    Case("deflate bomb", coded(zlib.compress(b"\0" * 1_000_000), "deflate"), HANG, "body-too-long"),
    Case("brotli bomb", coded(brotli.compress(b"\0" * 100_000_000), "br"), HANG, "body-too-long"),
    Case("zstd bomb", coded(zstd.compress(b"\0" * 100_000_000), "zstd"), HANG, "body-too-long"),
    Case("redirect to itself", reply(b"", "302 Found", "Location: ?again"), HANG, "redirect-loop"),
    Case("redirect to nothing", reply(b"", "302 Found", "Location: "), HANG, "redirect-loop"),
    Case("redirect outside", reply(b"", "301 Moved", "Location: http://evil.example/"), HANG, "redirect-outside"),
    Case("redirect to a file", reply(b"", "301 Moved", "Location: file:///etc/passwd"), HANG, "redirect-outside"),
    Case("redirect to a mail port", reply(b"", "301 Moved", "Location: //127.0.0.1:25/"), HANG, "redirect-outside"),
    Case("redirect to the cloud", reply(b"", "307 Moved", "Location: //169.254.169.254/"), HANG, "redirect-outside"),
    Case("redirect to a number", reply(b"", "308 Moved", "Location: http://2130706433/"), HANG, "bad-response"),
    Case("redirect to an octal", reply(b"", "303 Moved", "Location: http://0177.0.0.1/"), HANG, "bad-response"),
    Case("redirect with a password", reply(b"", "302 Found", "Location: http://u:p@h/"), HANG, "bad-response"),
    Case("redirect to a script", reply(b"", "302 Found", "Location: javascript:alert(1)"), HANG, "bad-response"),
    Case("redirect to half an address", reply(b"", "302 Found", "Location: http://[::1"), HANG, "bad-response"),
    Case("redirect with a control", reply(b"", "302 Found", "Location: /a\x85b"), HANG, "bad-response"),
    Case("redirect that grows", reply(b"", "302 Found", "Location: ?" + "%" * 1400), HANG, "bad-response"),
    Case("redirect to nowhere", reply(b"", "301 Moved"), HANG, "http-301"),
    Case("no content", b"HTTP/1.1 204 No Content\r\n\r\n", HANG, "http-204"),
    Case("created", reply(b"hello", "201 Created"), HANG, "http-201"),
    Case("a difference", reply(b"hello", "226 IM Used"), HANG, "http-226"),
    Case("reset content", reply(b"", "205 Reset Content"), HANG, "http-205"),
    Case("not found", reply(b"gone", "404 Not Found"), HANG, "http-404"),
    Case("not found, endless", b"HTTP/1.1 404 Not Found\r\n\r\nblah", HANG, "http-404"),
    Case("not found, huge", b"HTTP/1.1 404 Not Found\r\nContent-Length: 9999999\r\n\r\nblah", HANG, "http-404"),
    Case("not found, cut off", b"HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nblah", CLOSE, "http-404"),
    Case("not found, packed", reply(b"gone", "410 Gone", "Content-Encoding: gzip"), HANG, "http-410"),
    Case("unavailable", reply(b"later", "503 Service Unavailable"), HANG, "http-503"),
    Case("multiple choices", reply(b"many", "300 Multiple Choices"), HANG, "http-300"),
)
