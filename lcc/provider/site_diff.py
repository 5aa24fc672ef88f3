"""What changed on a site: the difference between its state file and all its elements as they are now.

URLs are compared by their normal form, as the LCC does (:mod:`lcc.provider.names`).  Memory is some 200 bytes a URL:
the key and the hash of what was told, never the URLs themselves.  What changed waits in a temporary file until the
deletions are out: should one of them mean what is told as well, the later word counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import IO

import attrs

from lcc.commands.errors import Trouble
from lcc.provider.failures import after_run, failure_in
from lcc.provider.names import Names, has_relative_links, is_relative, normal_mimetype
from lcc.provider.statefile import (
    VERSION_1,
    StateDamaged,
    StateEntry,
    StateFile,
    StateWriter,
    notice_digest,
    told_digest,
)
from lcc.provider.stream_format import StreamReader, is_deletion, named, read_elements, url_line

MASS_DELETE_MINIMUM = 10
"""A smaller site may lose any number of its URLs but all without a question."""

_SEEN = "seen"
_IN_MEMORY_BYTES = 1 << 20


class SiteFault(Trouble):
    """The elements do not describe a site that could be sent."""

    usually = "write the containers with file2url, or give each a conceptual URL"


class MassDelete(SiteFault):
    """More than half of the site would be deleted, or all of a small one."""

    usually = (
        "check that the input covers the whole site, with the same names as before (a new --urlprefix must be "
        "given to lcccpstate as well); if it is correct, use --allow-mass-delete"
    )


@attrs.frozen
class Difference:
    """What was found.

    :ivar total: URLs of the site now.
    :ivar changed: those that are told again included.
    :ivar repeated: elements that named the same URL with the same mime type once more; the first one counted.
    :ivar retold: URLs that have not changed, but could not be fetched when they were told.
    :ivar waiting: further ones, whose time has not come yet.
    :ivar resolved: relative names that were found among the known ones behind the urlprefix.
    """

    total: int
    added: int
    changed: int
    deleted: int
    repeated: int
    retold: int = 0
    resolved: int = 0
    waiting: int = 0


def compare(
    state: StateFile,
    site: Iterable[dict[str, str]],
    writer: StateWriter,
    emit: Callable[[dict[str, str]], None],
    *,
    now: int,
    full: bool = False,
    retry_failed: bool = False,
    allow_mass_delete: bool = False,
) -> Difference:
    """Hand on what must be sent, and write the state as it is once that was accepted.

    :param site: the elements of the entire site; a deletion among them means that the URL is not there.
    :param writer: takes the new state; its urlprefix is what the site's relative names are taken to stand behind.
        Neither closed nor abandoned here.
    :param emit: takes each element to be sent: in a full set all of them; else the deletions, then what was added or
        changed.
    :param now: seconds since 1970.
    :param retry_failed: what could not be fetched is told again at once.
    :raises MassDelete: before anything of a partial set was emitted.
    :raises SiteFault: an element without a conceptual URL.
    :raises lcc.provider.statefile.StateDamaged: never for a full set, which does without the old state then.
    """
    names, old_names = Names(writer.urlprefix), Names(state.urlprefix() or writer.urlprefix)
    moved = not names.are_those_of(old_names)
    known = _load(state, old_names, full)
    known_count = len(known)
    added = changed = repeated = retold = waiting = resolved = still_there = total = 0
    with ExitStack() as stack:
        later = None if full or not known else stack.enter_context(_Later())
        send = emit if later is None else later.add
        for attributes in site:
            curl = named(attributes, "c")
            if not curl:
                raise SiteFault(f"container {total + 1} has no conceptual URL (curl or c)")
            if is_deletion(attributes):
                continue
            relative = is_relative(curl)
            entry = StateEntry(
                notice_digest(attributes),
                curl if relative else names.url(curl),
                normal_mimetype(named(attributes, "m")),
            )
            key = names.key(curl, entry.mimetype)
            before = known.get(key)
            if before is _SEEN:
                repeated += 1
                continue
            known[key] = _SEEN
            total += 1
            if before is None:
                added += 1
            else:
                still_there += 1
                resolved += relative and bool(names.urlprefix)
                failure, told = failure_in(before)
                if _is_same(told, entry, attributes) and not (moved and has_relative_links(attributes)):
                    failure, again = after_run(failure, now, full or retry_failed)
                    if failure is not None:
                        entry = entry._replace(digest=failure.before(entry.digest))
                        waiting += not failure.told_again
                    if not again:
                        writer.add(entry)
                        if full:
                            emit(attributes)
                        continue
                    retold += 1
                changed += 1
            writer.add(entry)
            send(attributes)
        deleted = known_count - still_there
        if not allow_mass_delete:
            if known_count and not total:
                raise MassDelete(f"the input contains no URL: all {known_count:,} would be deleted")
            if known_count >= MASS_DELETE_MINIMUM and deleted * 2 > known_count:
                raise MassDelete(f"{deleted:,} of {known_count:,} URLs would be deleted")
        if deleted and not full:
            for gone in state.entries():
                key = old_names.key(gone.curl, gone.mimetype)
                if known[key] is not _SEEN:
                    known[key] = _SEEN  # version 1 may name it twice
                    emit(_deletion(gone, old_names if moved else None))
        if later is not None:
            for attributes in later.elements():
                emit(attributes)
    return Difference(total, added, changed, deleted, repeated, retold, resolved, waiting)


def _is_same(before: str, entry: StateEntry, attributes: dict[str, str]) -> bool:
    if before.startswith(VERSION_1):
        return before == VERSION_1 + told_digest(attributes)
    return before == entry.digest


def _load(state: StateFile, names: Names, full: bool) -> dict[bytes, str]:
    known: dict[bytes, str] = {}
    try:
        for entry in state.entries():
            known[names.key(entry.curl, entry.mimetype)] = entry.digest
    except StateDamaged:
        if not full:
            raise
        known.clear()
    return known


def _deletion(gone: StateEntry, names: Names | None) -> dict[str, str]:
    """The element that deletes a URL.

    :param names: to write a relative name as a whole URL: it was told behind another prefix than this set's.
    """
    curl = gone.curl if names is None else names.url(gone.curl)
    if not gone.mimetype:
        return {"c": curl, "op": "delete"}
    return {"c": curl, "m": gone.mimetype, "op": "delete"}


class _Later:
    """A buffer of elements, on disk if they are many."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES, prefix="lcccpstate-")  # noqa: SIM115

    def __enter__(self) -> _Later:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, attributes: dict[str, str]) -> None:
        """One more."""
        self._file.write(url_line(attributes).encode())

    def elements(self) -> Iterable[dict[str, str]]:
        """All of them, as they came."""
        self._file.seek(0)
        return read_elements(self._file, StreamReader(require_end=False))
