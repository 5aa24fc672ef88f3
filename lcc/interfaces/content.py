"""The content of pages: where a robot writes it, and the folder of a BOT-M."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from zope.interface import Attribute, Interface


class IContentSink(Interface):
    """Receives the content of one URL from a fetcher."""

    def write(data: bytes) -> None:
        """Append content; OSError on a disk error."""


class IAttemptFile(IContentSink):
    """One attempt of a robot to store the content of one URL."""

    size_bytes: int = Attribute("Bytes written so far.")
    md5: str = Attribute("Of what was written so far, in hexadecimal.")

    def close() -> None:
        """The content is complete; OSError on a disk error."""

    def discard() -> None:
        """Remove the file; never fails."""


class IFetchingNote(Interface):
    """Where a robot says, for whichever BOT-M comes next, that it may be fetching."""

    def begin_fetching(run: str) -> None:
        """The robot of this run may be fetching from now on.  OSError when this cannot be noted."""

    def end_fetching(run: str) -> None:
        """It has ended all its fetches; never fails."""


class IContentReader(Interface):
    """An open content file."""

    size_bytes: int = Attribute("Of the whole file.")

    def read(offset: int, length: int) -> bytes:
        """At most ``length`` bytes from this offset; OSError on a read error."""

    def close() -> None:
        """Close it."""


class IContentFolder(Interface):
    """The content files of one machine (see :class:`lcc.storage.disk.content_folder.ContentFolder`)."""

    names_upto: int = Attribute("File ids from this one on were never given out.")
    next_name: int = Attribute("File ids from this one on were not given out by this process.")
    mark: tuple[str, int] = Attribute("Timeline and number of the last change of the database that is remembered.")

    path: Path = Attribute("Its path, for messages.")
    robots_path: Path = Attribute("Where robots lock a file each while they may be fetching.")
    owner: str = Attribute("The run that has claimed it; empty: none, or the claim failed.")

    def claim(run: str) -> None:
        """Write the run of the BOT-M that owns the folder, for its robots.  OSError on a disk error."""

    def fetching_robots(among: Container[str] | None = None) -> set[str]:
        """The runs of robots that may be fetching, for this BOT-M or an earlier one; of these only, if any are given.
        One of these whose lock cannot be examined counts as fetching.  OSError on a disk error."""

    def robot_over(run: str) -> None:
        """The robot of this run has ended: nothing is to be kept of it."""

    def remember(timeline: str, change: int) -> None:
        """The database has come so far; OSError when it cannot be kept."""

    def no_room(tried: bool) -> str:
        """Why no content can be stored at present, for operators; empty: it can.

        :param tried: try to write a file (the disk is known to fail)."""

    def skip_names(upto: int) -> None:
        """Give out no file id below this one; durable on return.  OSError on a disk error."""

    def reserve() -> int:
        """Allocate a file id; OSError if no further ids can be reserved at present."""

    def attempt(file_id: int, attempt: int) -> str:
        """Path of this attempt at this file, relative to the folder."""

    def attempt_bytes(attempt: str) -> int:
        """The current length of this attempt's file; 0: no file."""

    def accept(attempt: str, file_id: int) -> None:
        """Rename a complete attempt to the content file.  OSError if it is missing or cannot be renamed."""

    def discard(attempt: str) -> None:
        """Remove an attempt's file, if there is one."""

    def remove(file_id: int) -> bool:
        """Remove a content file; False: there was none.  OSError when it cannot be removed."""

    def read(file_id: int) -> IContentReader:
        """Open a content file; FileNotFoundError when there is none, OSError when it cannot be opened."""

    def is_intact(file_id: int, size_bytes: int, md5: str) -> bool:
        """Whether a content file exists with this content.  Blocks while it reads."""


class IContentSync(Interface):
    """Tracks which content files are on stable storage (:class:`lcc.storage.disk.content_sync.ContentSync`).

    Its methods block, are called one at a time, and raise OSError when the disk does."""

    suspect: tuple[int, int] = Attribute(
        "Files from the first to before the second are to be verified; (0, 0): none."
    )

    def advance(upto: int) -> None:
        """Sync; all files below ``upto`` that will ever be accepted are accepted."""

    def intact(upto: int) -> None:
        """Sync; no file is suspect any longer."""

    def close() -> None:
        """Sync; no file is accepted any longer."""
