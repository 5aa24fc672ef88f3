"""What a content port answers to a batch: however it is cut, the same files are written, or none."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.task import Clock

from lcc.errors import FetchError
from lcc.model.content_batches import read_stored
from lcc.protocols.content_batch import write_file
from lcc.roles.bot.batches import BatchSink
from lcc.storage.disk.content_folder import ATTEMPTS, AttemptFolder, attempt_path
from lcc.storage.disk.content_paths import nth_attempt
from tests.fuzz.target import Target, check
from tests.support.transports import Line

_COUNT = 4
_HONEST = write_file(200, b"one") + write_file(410) + write_file(200) + write_file(200, b"200 3\nabc" * 30)
_WHOLE_BYTES_MAX = 16_384


class Batches(Target):
    """Bytes to attempts."""

    name = "batch: at the robot"
    streams = 200

    @classmethod
    def seeds(cls) -> list[bytes]:
        return [
            _HONEST,
            write_file(200, b"x" * 3000) * _COUNT,
            write_file(413) * _COUNT,
            b"200 65536\n" + b"y" * 65536 + write_file(503) * (_COUNT - 1),
            _HONEST + write_file(200, b"more"),
            b"<html>not found</html>",
        ]

    def __init__(self, home: Path) -> None:
        self.clock = Clock()
        self._home = home
        self._attempt = attempt_path(1, 1)
        (home / ATTEMPTS / "000").mkdir(parents=True)
        self._sinks = AttemptFolder(home).sink

    def connect(self, room: int | None = None, late: bool = False) -> Line:
        raise NotImplementedError

    def play(self, random: Random, pieces: Any) -> Line | None:
        found = self._read(pieces)
        data = b"".join(pieces)
        if len(pieces) > 1 and len(data) <= _WHOLE_BYTES_MAX:
            check((found is None) == (self._read([data]) is None), "the cuts change whether it is an answer")
            check(found is None or found == self._read([data]), "the cuts change the files")
        return None

    def honest(self) -> None:
        found = self._read([_HONEST])
        check(found == [b"one", None, b"", b"200 3\nabc" * 30], f"it wrote {found}")

    def _read(self, pieces: Any) -> list[bytes | None] | None:
        """The files; None: it was no such answer, and nothing is left of it."""
        sink = BatchSink(self._sinks, self._attempt, _COUNT)
        try:
            for piece in pieces:
                sink.write(piece)
            sink.close()
        except FetchError:
            sink.discard()
            check(not list((self._home / ATTEMPTS / "000").iterdir()), "something is left of it")
            return None
        stored = read_stored(sink.stored, _COUNT)
        paths = [self._home / nth_attempt(self._attempt, index) for index in range(_COUNT)]
        found = [None if each is None else path.read_bytes() for each, path in zip(stored, paths, strict=True)]
        for content, each in zip(found, stored, strict=True):
            if content is not None:
                check(each == (len(content), md5(content).hexdigest()), f"{each} was said of a file")
        sink.discard()
        check(not list((self._home / ATTEMPTS / "000").iterdir()), "something is left of it")
        return found
