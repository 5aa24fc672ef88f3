"""A batch of content files, as a robot stores it: each file is an attempt of its own."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from lcc.errors import FetchError
from lcc.interfaces import IAttemptFile
from lcc.model.content_batches import StoredFile, write_stored
from lcc.protocols.content_batch import BatchReader
from lcc.storage.disk.content_paths import nth_attempt


@implementer(IAttemptFile)
class BatchSink:
    """Takes the answer of a content port apart, and writes the files in it.

    :param sinks: makes the sink for an attempt.
    :param attempt: that of the first file; the others have the file ids behind it.
    :ivar md5: empty: each file has its own (:attr:`stored`).
    """

    md5 = ""

    def __init__(self, sinks: Callable[[str], IAttemptFile], attempt: str, count: int) -> None:
        self._sinks = sinks
        self._attempt = attempt
        self._reader = BatchReader(count)
        self._files: list[IAttemptFile | None] = []
        self._discarded = False
        self.size_bytes = 0

    @property
    def stored(self) -> str:
        """What was stored (:func:`lcc.model.content_batches.write_stored`)."""
        found: list[StoredFile] = [None if file is None else (file.size_bytes, file.md5) for file in self._files]
        return write_stored(found)

    def write(self, data: bytes) -> None:
        """Take the next bytes of the answer.

        :raises FetchError: it is not that to a batch.
        :raises OSError: disk error; or it was discarded.
        """
        if self._discarded:
            raise OSError("this attempt is closed")
        for content in self._reader.feed(data):
            if content is None:
                self._files.append(None)
                continue
            file = self._sinks(nth_attempt(self._attempt, len(self._files)))
            self._files.append(file)
            if content:
                file.write(content)
            file.close()
            self.size_bytes += len(content)

    def close(self) -> None:
        """The answer is complete.

        :raises FetchError: it is not, or there is not one file in it: they are better asked for one by one.
        """
        self._reader.finish()
        if not any(self._files):
            raise FetchError.from_status(404, "no file of the batch")

    def discard(self) -> None:
        """Remove all of them, and write no more.  Never fails."""
        self._discarded = True
        for file in self._files:
            if file is not None:
                file.discard()
