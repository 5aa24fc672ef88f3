"""Which packages there are."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import attrs

from lcc.roles.cu.packages.packing import Writer
from lcc.roles.cu.packages.tarball import TarWriter


class NotInstalled(Exception):
    """A library that this kind of package needs is not installed."""


def _tar(time: int, temporary: Path) -> Writer:
    return TarWriter(time)


def _warc(compress: bool) -> Callable[[int, Path], Writer]:
    def make(time: int, temporary: Path) -> Writer:
        if find_spec("warcio") is None:
            raise NotInstalled("WARC needs warcio: install lcc[warc]")
        from lcc.protocols.warc import WarcWriter

        return WarcWriter(compress, time, temporary)

    return make


@attrs.frozen
class Kind:
    """A format of packages.

    :ivar media_type: for HTTP.
    :ivar make: ``make(time, temporary)`` makes a writer; NotInstalled: something is missing for it.
    :ivar compress: what the writer makes is one gzip stream.
    """

    media_type: str
    make: Callable[[int, Path], Writer]
    compress: bool = False


KINDS: dict[str, Kind] = {
    "tar": Kind("application/x-tar", _tar),
    "tar.gz": Kind("application/gzip", _tar, compress=True),
    "warc": Kind("application/warc", _warc(False)),
    "warc.gz": Kind("application/warc+gzip", _warc(True)),
}
"""By the end of their files' names."""
