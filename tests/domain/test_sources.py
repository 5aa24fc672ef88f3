"""Sources have one spelling, on every wire, in files and in commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcc.model import HINTS, SITE, SOURCE_NAMES, Source, Standing, parse_source, parse_sources, source_text


def test_the_bits_that_tables_hold() -> None:
    assert [(source.name, int(source)) for source in Source] == [
        *(("TOLD", 1), ("PUSHED", 2), ("LISTED", 4), ("FEED", 8), ("LINK", 16), ("POLLED", 32))
    ]
    assert SITE & HINTS == 0 and (SITE | HINTS) == 31
    assert SOURCE_NAMES == ("told", "pushed", "listed", "feed", "link", "polled")


@given(st.integers(1, 63))
def test_a_mask_is_read_as_it_is_written(mask: int) -> None:
    assert parse_sources(source_text(mask)) == mask
    if mask.bit_count() == 1:
        assert parse_source(source_text(mask)) == mask
    else:
        with pytest.raises(ValueError, match="more than one source"):
            parse_source(source_text(mask))


@pytest.mark.parametrize("text", ["", "told,", "Told", "spider", "1", "told;feed"])
def test_an_unknown_name_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown source .*there are told, pushed"):
        parse_sources(text)


def test_nobody_has_no_name() -> None:
    assert source_text(0) == ""


def test_names_may_have_spaces_around_them() -> None:
    assert parse_sources(" told , listed ") == Source.TOLD | Source.LISTED and parse_source(" feed ") is Source.FEED
    assert parse_source("told") is Source.TOLD


def test_of_two_rows_of_a_url_the_last_numbers_count() -> None:
    row = Standing(5, Source.TOLD | Source.FEED, "2:9")
    assert row.numbers == (5, 9, 0)
    joined = row.joined(Standing.of(7, Source.LISTED, (3, 11, 7)))
    assert joined == Standing(5, Source.TOLD | Source.FEED, "2:11 4:7") and joined.numbers == (5, 11, 7)
    left = row.left_to(int(Source.FEED))
    assert left == Standing(5, Source.FEED, "1:5 2:9") and left.numbers == row.numbers
