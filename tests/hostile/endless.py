"""Servers that never come to an end: slowly, so that only a clock stops them, or as fast as they can.

The slow ones send something before the idle time is over, again and again.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import brotli

from lcc.fetchers.codings import zstd

from .answers import CHUNKED, HANG, NO_FRAME, OK, Case, coded

PACE_SECONDS = 0.25
CODED = OK + b"Content-Encoding: %b\r\n\r\n"
STORED = b"\0\0\0\xff\xff"
"""A block of deflate without anything in it."""


def slow(name: str, sent: bytes, forever: bytes, error: str = "deadline") -> Case:
    return Case(name, sent, HANG, error, forever=forever, pace_seconds=PACE_SECONDS)


def fast(name: str, sent: bytes, forever: bytes, error: str) -> Case:
    return Case(name, sent, HANG, error, forever=forever)


def zeros_for_ever() -> tuple[bytes, bytes]:
    """The beginning of a gzip file, and what makes another MiB of zeros of it each time."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    first = compressor.compress(b"\0" * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return first, compressor.compress(b"\0" * (1 << 20)) + compressor.flush(zlib.Z_FULL_FLUSH)


FIRST_ZEROS, MORE_ZEROS = zeros_for_ever()

ENDLESS = (
    slow("slow status line", b"HTTP/1.1 200 ", b"O"),
    slow("slow field name", OK, b"X"),
    slow("slow field value", OK + b"X: ", b"y"),
    slow("slow fields", OK, b"X: y\r\n"),
    slow("slow blank lines before it all", b"", b"\r\n"),
    slow("slow continues", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    slow("slow hints", b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"),
    slow("slow body", OK + b"Content-Length: 5000\r\n\r\n", b"x"),
    slow("slow body until the connection ends", OK + b"\r\n", b"x"),
    slow("slow chunks", CHUNKED, b"1\r\nx\r\n"),
    slow("slow chunk extension", CHUNKED + b"5;", b"x"),
    slow("slow chunk size", CHUNKED, b"0"),
    slow("slow trailers", CHUNKED + b"0\r\n", b"X: y\r\n"),
    slow("slow gzip", CODED % b"gzip" + gzip.compress(b"")[:10], STORED),
    slow("slow redirect", b"HTTP/1.1 302 Found\r\nLocation: ?\r\nContent-Length: 5000\r\n\r\n", b"x"),
    slow("slow page that is not there", b"HTTP/1.1 404 No\r\nContent-Length: 5000\r\n\r\n", b"x", "http-404"),
    fast("endless body", OK + b"\r\n", b"x" * 50_000, "body-too-long"),
    fast("endless chunks", CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n", "body-too-long"),
    fast("endless chunk extension", CHUNKED + b"5;", b"x" * 5000, "headers-too-long"),
    fast("endless chunk size", CHUNKED, b"0" * 5000, "headers-too-long"),
    fast("endless trailers", CHUNKED + b"0\r\n", b"X: y\r\n" * 1000, "headers-too-long"),
    fast("endless fields", OK, b"X: y\r\n" * 1000, "headers-too-long"),
    fast("endless field", OK + b"X: ", b"y" * 5000, "headers-too-long"),
    fast("endless continues", b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "headers-too-long"),
    fast("endless blank lines", b"", b"\r\n" * 5000, "headers-too-long"),
    fast("endless status line", b"HTTP/1.1 200 ", b"O" * 5000, "headers-too-long"),
    fast("endless NULs", b"", b"\0" * 5000, "bad-response"),
    fast("endless gzip of nothing", CODED % b"gzip" + gzip.compress(b"")[:10], STORED * 2000, "body-too-long"),
    fast("endless gzip members", CODED % b"gzip", gzip.compress(b"") * 500, "body-too-long"),
    fast("endless gzip of zeros", CODED % b"gzip" + FIRST_ZEROS, MORE_ZEROS, "body-too-long"),
    fast("endless deflate of zeros", CODED % b"deflate" + FIRST_ZEROS[10:], MORE_ZEROS, "body-too-long"),
    fast("endless page that is not there", b"HTTP/1.1 404 No\r\n\r\n", b"x" * 5000, "http-404"),
    fast(
        "endless chunks that are not there",
        b"HTTP/1.1 410 No\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1000\r\n" + b"x" * 4096 + b"\r\n",
        "http-410",
    ),
    fast("endless redirect", b"HTTP/1.1 302 Found\r\nLocation: ?\r\n\r\n", b"x" * 5000, "redirect-loop"),
)


def bomb(compressor: Any) -> bytes:
    """A quarter of a GiB of zeros, made without ever having them."""
    compress = getattr(compressor, "process", None) or compressor.compress
    pieces = [compress(b"\0" * (1 << 20)) for _ in range(256)]
    end = getattr(compressor, "finish", None) or compressor.flush
    return b"".join([*pieces, end()])


BOMBS = (
    Case("bomb of brotli", coded(bomb(brotli.Compressor(quality=1)), "br"), HANG, "body-too-long"),
    Case("bomb of gzip", coded(bomb(zlib.compressobj(1, zlib.DEFLATED, 31)), "gzip"), HANG, "body-too-long"),
    Case("bomb of zstd", coded(bomb(zstd.ZstdCompressor()), "zstd"), HANG, "body-too-long"),
    fast("endless zstd frames", CODED % b"zstd", NO_FRAME * 1100, "coding-damaged"),
    fast("endless small chunks", CHUNKED, b"1\r\nx\r\n" * 1000, "headers-too-long"),
)
"""For a robot with the limits of every day: a body may be longer than what one read of a socket brings."""
