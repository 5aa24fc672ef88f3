"""Real content files in a folder of their own."""

from __future__ import annotations

from pathlib import Path

from lcc.storage.disk.content_folder import AttemptFolder, ContentFolder
from lcc.storage.disk.durable import DurableCounter


class Contents:
    """A content folder below a home, open.

    :ivar folder: as the BOT-M has it.
    """

    def __init__(self, home: Path) -> None:
        self.folder = ContentFolder(home / "content", lambda path: DurableCounter(path, 100))
        self.folder.open()

    def add(self, data: bytes) -> int:
        """A new content file; its id."""
        file_id = self.folder.reserve()
        attempt = self.folder.attempt(file_id, 1)
        sink = AttemptFolder(self.folder.path).sink(attempt)
        sink.write(data)
        sink.close()
        self.folder.accept(attempt, file_id)
        return file_id
