"""Batches of content files: their names, their results, and the answer of a content port, cut anywhere."""

from __future__ import annotations

from random import Random

import pytest

from lcc.errors import FetchError
from lcc.model.content_batches import (
    FILE_BYTES_MAX,
    FILES_MAX,
    count_of,
    read_names,
    read_stored,
    subtype_of,
    write_names,
    write_stored,
)
from lcc.protocols.content_batch import BatchReader, write_file

CONTENTS = [b"first", b"", None, b"200 5\n" * 40, b"\n\0\xff", b"x" * FILE_BYTES_MAX]
WHOLE = b"".join(write_file(410) if each is None else write_file(200, each) for each in CONTENTS)


def read(pieces: list[bytes], count: int) -> list[bytes | None]:
    reader = BatchReader(count)
    found = [each for piece in pieces for each in reader.feed(piece)]
    reader.finish()
    return found


def test_an_answer_is_read_however_it_is_cut() -> None:
    assert read([WHOLE], len(CONTENTS)) == CONTENTS
    short, count = WHOLE[: -(FILE_BYTES_MAX + len("200 65536\n"))], len(CONTENTS) - 1
    for cut in range(len(short) + 1):
        assert read([short[:cut], short[cut:]], count) == CONTENTS[:count]
    assert read([short[at : at + 1] for at in range(len(short))], count) == CONTENTS[:count]


def test_an_answer_that_ends_early_is_noticed() -> None:
    short = WHOLE[: -(FILE_BYTES_MAX + len("200 65536\n"))]
    for cut in range(len(short)):
        with pytest.raises(FetchError):
            read([short[:cut]], len(CONTENTS) - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>not found</html>",
        b"\n",
        b"200\n",
        b"200 x\n",
        b"200 -1\n",
        b"200 65537\nx",
        b"200 100000\nx",
        b"410 3\nabc",
        b"2000 3\nabc",
        b"200 1\nx200 1\ny200 1\nz",
    ],
)
def test_what_is_no_such_answer(data: bytes) -> None:
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        with pytest.raises(FetchError) as error:
            read(pieces, 2)
        assert error.value.entry.name == "bad-response"


def test_names_of_files() -> None:
    random = Random(1)
    for count in (1, 2, 7, FILES_MAX):
        files = sorted(random.sample(range(1, 10**12), count))
        assert read_names(write_names(files)) == files
    assert write_names([1000, 1001, 1010]) == "1000,1,9"
    for text in ("", "1,", ",1", "1,0", "1,-1", "1,x", "1 ,2", ",".join(["1"] * (FILES_MAX + 1)), "1" * 30):
        with pytest.raises(ValueError, match=r"."):
            read_names(text)


def test_what_was_stored() -> None:
    stored = [(5, "a" * 32), None, (0, "0" * 32)]
    text = write_stored(stored)
    assert text == f"5:{'a' * 32},-,0:{'0' * 32}"
    assert read_stored(text, 3) == stored
    for bad, count in (
        (text, 2),
        (text, 4),
        ("", 1),
        ("5:abc", 1),
        (f"-5:{'a' * 32}", 1),
        (f"{10**18 * 9}:{'a' * 32}", 1),
    ):
        with pytest.raises(ValueError, match=r"."):
            read_stored(bad, count)


def test_no_provider_can_tell_the_subtype_of_a_batch() -> None:
    assert [count_of(subtype_of(count)) for count in (2, FILES_MAX)] == [2, FILES_MAX]
    for subtype in ("", "batch: 5", "batch/", "batch/x", "batch/-1", f"batch/{FILES_MAX + 1}", "batch/" + "9" * 50):
        assert count_of(subtype) == 0
