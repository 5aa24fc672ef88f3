"""The state file: what the LCC knows of the site, as of the last accepted submission.

Text, one line for each URL: a hash of what was told of it, and its conceptual URL and mime type as JSON::

    lcc-state 2 5f0c2a… "http://site/"
    8d1e0c7a54f0b1c2d3e4f506 ["index.html", "text/html"]
    end 1

The first line has the ``--urlprefix`` with which relative names were told ("" as long as that is not known).  Whole
URLs and mime types are in their normal form; relative names stand as they were told, and are compared by the normal
form that they have behind the prefix (:class:`lcc.provider.names.Names`).

In place of the hash:

* ``?``: nobody knows whether this was taken.  It is sent again if it exists, and deleted if it does not;
* ``!404,SINCE,AT:8d1e…``, ``~404,SINCE,AT:8d1e…``: it was taken, and could not be fetched: it is told again, or was
  (:mod:`lcc.provider.failures`), and deleted if it does not exist;
* ``1:8d1e…``: the hash of version 1 of this file, which was over name and mime type, too.  Version 1 had no prefix,
  and every name as it was spelled.

A submission goes in two steps.  ``lcccpstate`` writes ``FILE.pending``, the state as it will be; ``lcccp`` puts it in
place once the UNS accepted, or removes it when nothing was accepted for certain.  A pending state that is still there
at the next run means that nobody knows: the answer was lost, or the pipe was cut.  Then every URL on which the two
states differ becomes *unsure*.  What ``lcccp`` has to note of a submission (:mod:`lcc.provider.delivery`) it notes in
the pending state.

All files are replaced by rename, synced before and after.  ``FILE.lock`` is held while either tool works on it;
``FILE.fullset-wanted`` notes that a full set is wanted, and why: the LCC asked for one, or deletions that it had held
were released.  Nobody here knows which set had not named these, so the LCC may have less than the state file says.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TextIO

import attrs

from lcc.commands.errors import Trouble
from lcc.provider.names import LINKS, Names, is_relative
from lcc.provider.stream_format import LONG_NAMES

UNSURE = "?"
DELETIONS_RELEASED = "deletions-released"
"""Why a full set is wanted, though the LCC does not ask for one."""

VERSION_1 = "1:"
_HEADER_CHARS = 65_536
_DIGEST_BYTES = 12
_NAMES = frozenset({"c", "curl", "m", "mimetype"})
_bare = Names("")
_header_1 = re.compile(r"lcc-state 1 (.*)\n").fullmatch
_journal_head = re.compile(r'lcc-journal 1 (".*")\n').fullmatch
_header_2 = re.compile(r'lcc-state 2 (\S*) (".*")\n').fullmatch


class StateFault(Trouble):
    """The state file cannot be used."""

    usually = "use --full to send everything and start a new state"


class StateBusy(StateFault):
    """Another run is using this state file."""

    usually = "wait until it has finished; if it hangs, kill it, and nothing is lost"


class StateDamaged(StateFault):
    """The state file is cut off or not a state file at all."""

    usually = (
        "check --statefile; then use --full to send everything and start a new state, or remove it and its "
        ".pending and .journal files to send everything as changes"
    )


class StateEntry(NamedTuple):
    """One URL: the hash of what was told of it, its conceptual URL, its mime type."""

    digest: str
    curl: str
    mimetype: str


@attrs.frozen
class StateHeader:
    """The first line of a state file.

    :ivar urlprefix: with which relative names were told; '' where that is not known.
    """

    version: int
    token: str
    urlprefix: str

    @classmethod
    def read(cls, file: TextIO) -> StateHeader | None:
        """That of an open file; None: it is no state file."""
        line = file.readline(_HEADER_CHARS)
        if found := _header_2(line):
            try:
                return cls(2, found[1], str(json.loads(found[2])))
            except ValueError:
                return None
        found = _header_1(line)
        return None if found is None else cls(1, found[1], "")


def told_digest(attributes: Mapping[str, str]) -> str:
    """A hash of all attributes, the same in whatever order they come, and with their short names or long ones.

    Version 1 of the state file had it; it changes with the spelling of the URL.
    """
    return _digest(attributes.items())


def notice_digest(attributes: Mapping[str, str]) -> str:
    """A hash of all that is told of a URL but its name and mime type."""
    told = {name: value for name, value in attributes.items() if name not in _NAMES}
    for name in LINKS:
        if told.get(name):
            told[name] = _bare.url(told[name])
    return _digest(told.items())


def _digest(items: Iterable[tuple[str, str]]) -> str:
    parts = sorted([f"{LONG_NAMES.get(name, name)}\0{value}\0" for name, value in items])
    return blake2b("".join(parts).encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


class StateWriter:
    """Writes a state file under a temporary name; it stands in its place only after :meth:`close`.

    :param urlprefix: of the relative names in it.
    """

    def __init__(self, path: Path, token: str, urlprefix: str = "") -> None:
        self._path = path
        self.urlprefix = urlprefix
        self._temporary = path.with_name(path.name + ".tmp")
        self._file: TextIO = self._temporary.open("w", encoding="utf-8", errors="surrogatepass")
        self._file.write(f"lcc-state 2 {token} {json.dumps(urlprefix)}\n")
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
    """All entries of a state file, of version 1, too; none if there is no file.

    :raises StateDamaged: possibly after the first entries.
    """
    try:
        file = path.open(encoding="utf-8", errors="surrogatepass")
    except FileNotFoundError:
        return
    count = 0
    with file:
        try:
            header = StateHeader.read(file)
            if header is None:
                raise StateDamaged(f"{path} is not a state file")
            mark = VERSION_1 if header.version == 1 else ""
            for line in file:
                digest, _, rest = line.partition(" ")
                if digest == "end":
                    if rest != f"{count}\n" or file.readline():
                        raise StateDamaged(f"{path} is damaged: wrong end")
                    return
                curl, mimetype = json.loads(rest)
                if type(curl) is not str or type(mimetype) is not str:
                    raise ValueError
                count += 1
                yield StateEntry(digest if digest == UNSURE else mark + digest, curl, mimetype)
        except (ValueError, TypeError):
            raise StateDamaged(f"{path} is damaged near line {count + 2}") from None
        raise StateDamaged(f"{path} is cut off")


def _header(path: Path) -> StateHeader | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return StateHeader.read(file)
    except FileNotFoundError:
        return None


def _urlprefix(path: Path) -> str:
    header = _header(path)
    return "" if header is None else header.urlprefix


class Journal:
    """What was told since the state file was written, set by set: a state that is written anew for each of many small
    sets would cost more than they do.

    ``FILE.journal`` has a line of JSON for each URL: hash (``?``: nobody knows whether it was taken; empty: the LCC
    has it no more), conceptual URL, mime type; the last line of a URL counts.  :meth:`StateFile.adopt_pending` takes
    it in.

    :param urlprefix: of the relative names in it.
    """

    def __init__(self, path: Path, urlprefix: str) -> None:
        self._file = path.open("a", encoding="utf-8", errors="surrogatepass")
        if not self._file.tell():
            self._file.write(f"lcc-journal 1 {json.dumps(urlprefix)}\n")
        self._folder = path.parent

    def note(self, entries: Iterable[StateEntry], durably: bool) -> None:
        """Add entries.

        :param durably: before this returns.
        :raises OSError: they are not there.
        """
        self._file.write("".join([f"{json.dumps(entry)}\n" for entry in entries]))
        self._file.flush()
        if durably:
            os.fsync(self._file.fileno())
            sync_folder(self._folder)

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()


def _read_journal(path: Path) -> tuple[str, dict[tuple[str, str], StateEntry]]:
    """The urlprefix of a journal, and the last entry of each URL.  A line that was cut off is left out: nothing was
    told of it.

    :raises FileNotFoundError: there is none.
    :raises StateDamaged: it is none.
    """
    latest: dict[tuple[str, str], StateEntry] = {}
    with path.open(encoding="utf-8", errors="surrogatepass") as file:
        head = _journal_head(file.readline(_HEADER_CHARS))
        if head is None:
            return "", {}  # cut off in its first line: nothing was told
        try:
            prefix = str(json.loads(head[1]))
            for line in file:
                if not line.endswith("\n"):
                    break
                entry = StateEntry(*json.loads(line))
                latest[entry.curl, entry.mimetype] = entry
        except (ValueError, TypeError):
            raise StateDamaged(f"{path} is damaged") from None
    return prefix, latest


class StateFile:
    """A state file with what belongs to it.

    :param path: where it stands, or will stand.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.pending = self._beside("pending")
        self.journal = self._beside("journal")
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
                raise StateBusy(f"another run is using {self.path}") from None
            yield

    def entries(self) -> Iterator[StateEntry]:
        """What the LCC knows.  Raises StateDamaged."""
        return read_entries(self.path)

    def pending_entries(self) -> Iterator[StateEntry]:
        """What the LCC will know if all of the submission is taken.  Raises StateDamaged."""
        return read_entries(self.pending)

    def urlprefix(self) -> str:
        """With which relative names were told; '' where that is not known, or there is no state file."""
        return _urlprefix(self.path)

    def pending_token(self) -> str:
        """The token of the pending state; '' if there is none."""
        header = _header(self.pending)
        return "" if header is None else header.token

    def revise(
        self,
        token: str,
        urlprefix: str | None,
        change: Callable[[StateEntry], StateEntry | None],
        more: Iterable[StateEntry] = (),
    ) -> bool:
        """Change the pending state, as a whole and durably.

        :param urlprefix: of its relative names; None: as before.
        :param change: gives an entry as it is to be, or None: it is left out.
        :param more: entries that are added.
        :returns: False if it is not there any more.
        """
        if self.pending_token() != token:
            return False
        writer = StateWriter(self.pending, token, _urlprefix(self.pending) if urlprefix is None else urlprefix)
        try:
            for entry in read_entries(self.pending):
                changed = change(entry)
                if changed is not None:
                    writer.add(changed)
            for entry in more:
                writer.add(entry)
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        return True

    def commit(self, token: str, full: bool) -> bool:
        """The submission was accepted: make its pending state the state.

        :param full: it was a full set, so that none is wanted any more.
        :returns: False if the pending state is not there any more.
        """
        if self.pending_token() != token:
            return False
        if full:
            # First: if the next step fails, the pending state stays and says "unsure", which is safe.
            self._note_wanted("")
        self.pending.replace(self.path)
        sync_folder(self.path.parent)
        if full:
            self.journal.unlink(missing_ok=True)  # it was damaged: else it was taken in
        return True

    def discard(self, token: str) -> None:
        """Nothing of the submission was accepted: remove its pending state."""
        if self.pending_token() == token:
            self.pending.unlink(missing_ok=True)

    def adopt_pending(self, token: str) -> bool:
        """Take in a pending state that nobody put in place: what differs becomes unsure; and the journal, if there is
        one (:class:`Journal`).

        :returns: True if something is unsure now.
        :raises StateDamaged: the state, the pending state or the journal cannot be read.
        """
        unsure = self._adopt_journal(token)
        if not self.pending.exists():
            return unsure
        before, after = _urlprefix(self.path), _urlprefix(self.pending)
        prefix = after or before
        old, new = Names(before or prefix), Names(prefix)
        maybe = {new.key(entry.curl, entry.mimetype): entry.digest for entry in read_entries(self.pending)}
        writer = StateWriter(self.path, token, prefix)
        try:
            known = set()
            for entry in self.entries():
                key = old.key(entry.curl, entry.mimetype)
                if key in known:
                    continue  # spelled in two ways, in version 1
                known.add(key)
                if maybe.get(key) != entry.digest:
                    entry = entry._replace(digest=UNSURE)
                if old.urlprefix != prefix and is_relative(entry.curl):
                    entry = entry._replace(curl=old.url(entry.curl))
                writer.add(entry)
            del maybe
            for entry in read_entries(self.pending):
                key = new.key(entry.curl, entry.mimetype)
                if key not in known:
                    known.add(key)
                    writer.add(entry._replace(digest=UNSURE))
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        self.pending.unlink()
        return True

    def _adopt_journal(self, token: str) -> bool:
        try:
            told_prefix, entries = _read_journal(self.journal)
        except FileNotFoundError:
            return False
        prefix = _urlprefix(self.path) or told_prefix
        names = Names(prefix)
        latest = {names.key(entry.curl, entry.mimetype): entry for entry in entries.values()}
        writer = StateWriter(self.path, token, prefix)
        try:
            for entry in self.entries():
                if names.key(entry.curl, entry.mimetype) not in latest:
                    writer.add(entry)
            for entry in latest.values():
                if entry.digest:
                    writer.add(entry)
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        self.journal.unlink()
        return any(entry.digest == UNSURE for entry in latest.values())

    def full_set_wanted(self) -> str:
        """Why a full set is wanted; '' if none is."""
        try:
            return self._wanted.read_text(encoding="utf-8", errors="replace").strip() or "unknown reason"
        except FileNotFoundError:
            return ""

    def note_full_set_wanted(self, reason: str) -> None:
        """What the LCC said at the beginning: if it wants a full set, the next run of ``lcccpstate`` sends one.

        :param reason: why; '': it wants none.
        """
        if self.full_set_wanted() != DELETIONS_RELEASED:  # that holds until a full set is accepted
            self._note_wanted(reason)

    def note_deletions_released(self) -> bool:
        """Deletions that the LCC holds are about to be released: the next run of ``lcccpstate`` sends a full set.

        :returns: False if that was noted before.
        """
        if self.full_set_wanted() == DELETIONS_RELEASED:
            return False
        self._note_wanted(DELETIONS_RELEASED)
        return True

    def deletions_not_released(self, reason: str) -> None:
        """The deletions were not released.

        :param reason: why the LCC wants a full set; '': it wants none.
        """
        self._note_wanted(reason)

    def _note_wanted(self, reason: str) -> None:
        if not reason:
            self._wanted.unlink(missing_ok=True)
            return
        temporary = self._wanted.with_name(self._wanted.name + ".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(f"{reason}\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._wanted)
        sync_folder(self._wanted.parent)
