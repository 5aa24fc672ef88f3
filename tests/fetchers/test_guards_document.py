"""The table of guards in doc/fetchers.md: its codes, keys and numbers are the program's, and each is tested."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from lcc.config import BotConfig
from lcc.domain.urls import URL_CHARS
from lcc.errors import CODES, ERRORS, Remedy
from lcc.fetchers.codings import PIECE_BYTES, RATIO_FREE_BYTES, ZSTD_FRAMES_MAX, ZSTD_WINDOW_LOG_MAX
from lcc.fetchers.dial import ATTEMPTS_MAX
from lcc.fetchers.http_protocol import DRAIN_BYTES_MAX
from lcc.fetchers.names import THREADS_FOR_A_FETCH
from lcc.fetchers.resolver import ADDRESSES_MAX, FAILURE_SECONDS
from tests.hostile.places import PLACES
from tests.hostile.server import CASES, TLS_FAULTS

TEXT = (Path(__file__).parents[2] / "doc" / "fetchers.md").read_text("utf-8")
SECTION = TEXT[TEXT.index("\n## Guards\n") : TEXT.index("\n## Trying a URL\n")]
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| ")][1:]
CODE = re.compile(r"\b(1[0-9]{3}) ([a-z-]+)")


def test_codes_have_their_names_and_hold_whom_they_should() -> None:
    for row in ROWS:
        for number, name in CODE.findall(row[-1]):
            assert CODES[name] == int(number)
            held = ERRORS[int(number)].remedy is Remedy.HOLD_PROVIDER
            assert held == row[-1].rstrip(" |").endswith("HOLD"), row


def test_each_code_has_a_hostile_origin() -> None:
    told = {name for row in ROWS for _, name in CODE.findall(row[-1])}
    played = {case.error for case in CASES.values()} | set(TLS_FAULTS.values()) | {place.error for place in PLACES}
    # These two need a port and a second site: test_hostile.py, test_fetch_places.py.
    assert told - played == {"connect-refused", "redirect-unreachable"}


def test_keys_and_numbers_are_those_of_the_program() -> None:
    keys = {field.name for field in attrs.fields(BotConfig)}
    named = set(re.findall(r"`([a-z]+_[a-z_]+|deadline|concurrency)`", SECTION))
    assert named <= keys
    assert {"deadline", "idle_timeout", "connect_timeout", "body_bytes_max", "header_bytes_max"} <= named
    assert (ADDRESSES_MAX, FAILURE_SECONDS, ATTEMPTS_MAX, THREADS_FOR_A_FETCH) == (64, 5.0, 6, 4)
    assert (PIECE_BYTES, DRAIN_BYTES_MAX, RATIO_FREE_BYTES) == (64 << 10, 64 << 10, 1 << 20)
    assert (ZSTD_FRAMES_MAX, ZSTD_WINDOW_LOG_MAX, URL_CHARS) == (1000, 23, 4096)
    for words in ("more than 64 addresses", "5 seconds", "six at most", "four for each", "pieces of 64 KiB"):
        assert words in SECTION
    for words in ("up to 64 KiB", "first MiB", "1,000 frames", "8 MiB", "4,096 characters"):
        assert words in SECTION
