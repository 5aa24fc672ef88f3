"""The store of pages: WARC files that rotate, each with its index (CDXJ), ready for replay."""

from __future__ import annotations

import io
from collections.abc import Sequence
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from lcc.errors import ConfigError
from lcc.interfaces import IOpenStore, IPageStore
from lcc.model.cache import CachedUrl
from lcc.model.spider.links import Page, PageLinks, StoreSettings
from lcc.protocols.cdxj import index_line, index_lines
from lcc.spider.stores.segments import Segments
from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import Disk

if TYPE_CHECKING:
    from lcc.protocols.warc import WarcWriter

_ENDING = ".warc.gz"


class _Content:
    """A page's content, as a record takes it."""

    def __init__(self, data: bytes) -> None:
        self.size_bytes = len(data)
        self._data = data

    def file(self) -> BinaryIO:
        return io.BytesIO(self._data)


def _answered(row: CachedUrl) -> CachedUrl:
    """A row with the status of its fetch, which content users are not told: what came over HTTP is cached if that was
    200 (or 203: the same, from somebody's copy).  All else has none, and is a resource."""
    if row.status or not (row.furl or row.curl).startswith(("http://", "https://")):
        return row
    return attrs.evolve(row, status=HTTPStatus.OK.value)


@implementer(IOpenStore)
class _OpenWarc:
    def __init__(self, folder: Path, place: str, disk: Disk, settings: StoreSettings) -> None:
        self._folder = folder
        self._disk = disk
        self._lines: list[bytes] = []
        self._writer: WarcWriter | None = None
        self._time = 0
        self._segments = Segments(
            folder, f"pages-{{}}{_ENDING}", place, disk, settings.segment_bytes, self._closing, self._taken_back
        )
        if self._segments.size_bytes:
            with disk.open(self._segments.path) as file:
                self._lines = [*index_lines(file, self._segments.final_name)]

    def write(self, pages: Sequence[tuple[Page, PageLinks]]) -> None:
        for page, _ in pages:
            self._time = max(self._time, page.row.fetched_time or 0)
            writer = self._begun()
            row = _answered(page.row)
            if page.whole:
                pieces = writer.member(row, _Content(page.content))
            else:
                pieces = writer.left_out(row, f"longer than the {len(page.content)} bytes that the spider reads")
            offset = self._segments.size_bytes
            self._segments.write(b"".join(pieces))
            line = index_line(writer.record, self._segments.final_name, offset, self._segments.size_bytes - offset)
            if line:
                self._lines.append(line)

    def flush(self) -> str:
        return self._segments.sync()

    def close(self) -> None:
        self._segments.close()
        self._end_writer()

    def _begun(self) -> WarcWriter:
        """The writer of the file that grows; each file begins by telling who wrote it."""
        if self._writer is None:
            from lcc.protocols.warc import WarcWriter

            self._writer = WarcWriter(compress=True, time=self._time, temporary=self._folder)
        if not self._segments.size_bytes:
            self._segments.write(b"".join(self._writer.begin()))
        return self._writer

    def _end_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _closing(self, path: Path, name: str) -> None:
        write_durably(self._index_of(name), b"".join(sorted(self._lines)), self._disk)
        self._lines = []
        self._end_writer()

    def _taken_back(self, name: str) -> None:
        self._disk.remove(self._index_of(name))

    def _index_of(self, name: str) -> Path:
        return self._folder / f"{name.removesuffix(_ENDING)}.cdxj"


def missing_packages() -> list[str]:
    """What the store needs and is not installed."""
    return [name for name in ("warcio", "surt") if find_spec(name) is None]


@implementer(IPlugin, IPageStore)
class WarcStore:
    """Pages as they were fetched."""

    name = "warc"
    summary = "pages as WARC files with CDXJ indexes, as archives have them"
    wants_text = False

    def open(self, folder: Path, place: str, disk: Disk, settings: StoreSettings) -> _OpenWarc:
        """As :meth:`lcc.interfaces.IPageStore.open`.

        :raises ConfigError: warcio or surt is not installed.
        """
        missing = missing_packages()
        if missing:
            raise ConfigError([f"the store warc needs {' and '.join(missing)}.  Next: install lcc[warc]"])
        return _OpenWarc(folder, place, disk, settings)
