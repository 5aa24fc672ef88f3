"""The index of a WARC file, as replay software wants it: CDXJ, sorted, a line for each content.

A line is ``SURT TIMESTAMP {"url": …, "mime": …, "status": …, "digest": …, "length": …, "offset": …, "filename": …}``.
"""

from __future__ import annotations

import heapq
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

RUN_LINES = 100_000
"""Sorted in memory; more of them through temporary files."""
INDEXED = frozenset(["response", "resource", "revisit"])
"""Types of records with content."""


def write_index(warc: BinaryIO, filename: str, index: BinaryIO, temporary: Path) -> int:
    """Write the index of a WARC.

    :param warc: the file, from its beginning.
    :param filename: that replay software will find it under.
    :param temporary: a folder for temporary files.
    :returns: how many lines it has.
    :raises ImportError: warcio or surt is not installed.
    """
    count = 0
    with in_order(index_lines(warc, filename), temporary) as lines:
        for line in lines:
            index.write(line)
            count += 1
    return count


@contextmanager
def in_order(lines: Iterable[bytes], temporary: Path) -> Iterator[Iterator[bytes]]:
    """Sorted lines, in bounded memory; all of them are read first.

    :param temporary: a folder for temporary files.
    """
    with ExitStack() as stack:
        runs: list[BinaryIO] = []
        held: list[bytes] = []
        for line in lines:
            held.append(line)
            if len(held) == RUN_LINES:
                run = stack.enter_context(tempfile.TemporaryFile(dir=temporary))
                run.writelines(sorted(held))
                run.seek(0)
                runs.append(run)
                held.clear()
        yield heapq.merge(*runs, sorted(held))


def index_lines(warc: BinaryIO, filename: str) -> Iterator[bytes]:
    """The lines of a WARC's index, in its order.

    :raises ImportError: warcio or surt is not installed.
    """
    from warcio.archiveiterator import ArchiveIterator

    records = ArchiveIterator(warc)
    for record in records:
        if record.rec_type in INDEXED:
            # The length is known once the record is read.
            length, offset = records.get_record_length(), records.get_record_offset()
            yield index_line(record, filename, offset, length)


def index_line(record: Any, filename: str, offset: int, length_bytes: int) -> bytes:
    """The line of a record of content; empty: it is another one.

    :param record: of warcio.
    :param offset, length_bytes: where it is in the file, as it is stored.
    """
    from surt import surt

    kind = record.rec_type
    if kind not in INDEXED:
        return b""
    url = record.rec_headers.get_header("WARC-Target-URI")
    date = re.sub("[^0-9]", "", record.rec_headers.get_header("WARC-Date"))[:14]
    fields = {
        "url": url,
        "mime": "warc/revisit" if kind == "revisit" else _mimetype(record),
        "status": record.http_headers.get_statuscode() if record.http_headers else "200",
        "digest": record.rec_headers.get_header("WARC-Payload-Digest"),
        "length": str(length_bytes),
        "offset": str(offset),
        "filename": filename,
    }
    return f"{surt(url)} {date} {json.dumps(fields)}\n".encode()


def _mimetype(record: Any) -> str:
    headers = record.http_headers or record.rec_headers
    mimetype: str = headers.get_header("Content-Type") or "unk"
    return mimetype.partition(";")[0].strip() or "unk"
