"""The state file: what the LCC knows of the site, as of the last accepted submission.

Text, one line for each URL: a hash of all that was told of it, and its conceptual URL and mime type as JSON::

    lcc-state 1 5f0c2a…
    8d1e0c7a54f0b1c2d3e4f506 ["index.html", "text/html"]
    end 1

A submission goes in two steps.  ``lcccpstate`` writes ``FILE.pending``, the state as it will be; ``lcccp`` puts it in
place once the UNS accepted, or removes it when nothing was accepted for certain.  A pending state that is still there
at the next run means that nobody knows: the answer was lost, or the pipe was cut.  Then every URL on which the two
states differ becomes *unsure* (a hash of ``?``): it is sent again if it exists and deleted if it does not.

All files are replaced by rename, synced before and after.  ``FILE.lock`` is held while either tool works on it;
``FILE.fullset-wanted`` notes that the LCC asked for a full set, and why.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TextIO

from lcc.commands.failing import Trouble
from lcc.provider.stream_format import LONG_NAMES, named

UNSURE = "?"
_MAGIC = "lcc-state 1 "
_DIGEST_BYTES = 12


class StateFault(Trouble):
    """The state file cannot be used."""

    usually = "use --full to send everything and start a new state"


class StateBusy(StateFault):
    """Another run is at work on this state file."""

    usually = "wait until it has ended; if it hangs, end it, and nothing is lost"


class StateDamaged(StateFault):
    """The state file is cut off or not a state file at all."""

    usually = (
        "see that --statefile names the right file; then use --full to send everything and start a new state, or "
        "remove it and what stands beside it (.pending) to send everything as changes"
    )


class StateEntry(NamedTuple):
    """One URL: the hash of what was told of it, its conceptual URL, its mime type."""

    digest: str
    curl: str
    mimetype: str


def url_key(curl: str, mimetype: str) -> bytes:
    """12 bytes that stand for a conceptual URL with its mime type, so that a site of millions fits into memory."""
    return blake2b(f"{mimetype}\0{curl}".encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def told_digest(attributes: Mapping[str, str]) -> str:
    """A hash of all attributes, the same in whatever order and spelling they come."""
    parts = sorted([f"{LONG_NAMES.get(name, name)}\0{value}\0" for name, value in attributes.items()])
    return blake2b("".join(parts).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def entry_of(attributes: Mapping[str, str]) -> StateEntry:
    """The state's entry of an element."""
    return StateEntry(told_digest(attributes), named(attributes, "c"), named(attributes, "m"))


class StateWriter:
    """Writes a state file under a temporary name; it stands in its place only after :meth:`close`."""

    def __init__(self, path: Path, token: str) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._file: TextIO = self._temporary.open("w", encoding="utf-8", errors="surrogatepass")
        self._file.write(f"{_MAGIC}{token}\n")
        self._count = 0

    def add(self, entry: StateEntry) -> None:
        """Add one URL."""
        self._count += 1
        self._file.write(f"{entry.digest} {json.dumps(entry[1:])}\n")

    def close(self) -> None:
        """Make the file durable and put it in place."""
        self._file.write(f"end {self._count}\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self._path)
        sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Forget what was written."""
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_entries(path: Path) -> Iterator[StateEntry]:
    """All entries of a state file; none if there is no file.

    :raises StateDamaged: possibly after the first entries.
    """
    try:
        file = path.open(encoding="utf-8", errors="surrogatepass")
    except FileNotFoundError:
        return
    count = 0
    with file:
        try:
            if not file.readline().startswith(_MAGIC):
                raise StateDamaged(f"{path} is not a state file")
            for line in file:
                digest, _, rest = line.partition(" ")
                if digest == "end":
                    if rest != f"{count}\n" or file.readline():
                        raise StateDamaged(f"{path} is damaged: its end does not fit")
                    return
                curl, mimetype = json.loads(rest)
                count += 1
                yield StateEntry(digest, curl, mimetype)
        except (ValueError, TypeError):
            raise StateDamaged(f"{path} is damaged near line {count + 2}") from None
        raise StateDamaged(f"{path} is cut off")


class StateFile:
    """A state file with what belongs to it.

    :param path: where it stands, or will stand.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.pending = self._beside("pending")
        self._wanted = self._beside("fullset-wanted")

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out.

        :raises StateBusy: one is at work.
        """
        with self._beside("lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateBusy(f"another run is at work on {self.path}") from None
            yield

    def entries(self) -> Iterator[StateEntry]:
        """What the LCC knows.  Raises StateDamaged."""
        return read_entries(self.path)

    def pending_token(self) -> str:
        """The token of the pending state; '' if there is none."""
        try:
            with self.pending.open(encoding="utf-8", errors="replace") as file:
                line = file.readline(200)
        except FileNotFoundError:
            return ""
        return line.removeprefix(_MAGIC).rstrip("\n") if line.startswith(_MAGIC) else ""

    def commit(self, token: str, full: bool) -> bool:
        """The submission was accepted: its pending state becomes the state.

        :param full: it was a full set, so that none is wanted any more.
        :returns: False if the pending state is not there any more.
        """
        if self.pending_token() != token:
            return False
        if full:
            # First: if the next step fails, the pending state stays and says "unsure", which is safe.
            self.full_set_not_wanted()
        self.pending.replace(self.path)
        sync_folder(self.path.parent)
        return True

    def discard(self, token: str) -> None:
        """Nothing of the submission was accepted, for certain."""
        if self.pending_token() == token:
            self.pending.unlink(missing_ok=True)

    def settle(self, token: str) -> bool:
        """Take in a pending state that nobody put in place: what differs becomes unsure.

        :returns: True if there was one.
        :raises StateDamaged: the state or the pending state cannot be read.
        """
        if not self.pending.exists():
            return False
        maybe = {url_key(entry.curl, entry.mimetype): entry.digest for entry in read_entries(self.pending)}
        writer = StateWriter(self.path, token)
        try:
            known = set()
            for entry in self.entries():
                key = url_key(entry.curl, entry.mimetype)
                known.add(key)
                same = maybe.get(key) == entry.digest
                writer.add(entry if same else entry._replace(digest=UNSURE))
            del maybe
            for entry in read_entries(self.pending):
                if url_key(entry.curl, entry.mimetype) not in known:
                    writer.add(entry._replace(digest=UNSURE))
        except StateFault:
            writer.abandon()
            raise
        writer.close()
        self.pending.unlink()
        return True

    def full_set_wanted(self) -> str:
        """Why the LCC wants a full set; '' if it does not."""
        try:
            return self._wanted.read_text(encoding="utf-8", errors="replace").strip() or "unknown reason"
        except FileNotFoundError:
            return ""

    def note_full_set_wanted(self, reason: str) -> None:
        """The LCC asked for a full set: the next run of ``lcccpstate`` sends one."""
        temporary = self._wanted.with_name(self._wanted.name + ".tmp")
        temporary.write_text(f"{reason}\n", encoding="utf-8")
        temporary.replace(self._wanted)

    def full_set_not_wanted(self) -> None:
        """The LCC has its full set, or asks for none."""
        self._wanted.unlink(missing_ok=True)
