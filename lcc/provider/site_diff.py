"""What changed on a site: the difference between its state file and all its elements as they are now.

Memory is some 200 bytes a URL: the key and the hash of what was told, never the URLs themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from lcc.commands.failing import Trouble
from lcc.provider.statefile import StateDamaged, StateEntry, StateFile, StateWriter, entry_of, url_key
from lcc.provider.stream_format import is_deletion

MASS_DELETE_MINIMUM = 10
"""A smaller site may lose any number of its URLs but all without a question."""

_SEEN = "seen"


class SiteFault(Trouble):
    """The elements do not describe a site that could be sent."""

    usually = "let file2url write the containers, or give each of them a conceptual URL"


class MassDelete(SiteFault):
    """More than half of the site would be deleted, or all of a small one."""

    usually = "see that all of the site was named; if that is right, use --allow-mass-delete"


@attrs.frozen
class Difference:
    """What was found.

    :ivar total: URLs of the site now.
    :ivar repeated: elements that named the same URL with the same mime type once more; the first one counted.
    """

    total: int
    added: int
    changed: int
    deleted: int
    repeated: int


def compare(
    state: StateFile,
    site: Iterable[dict[str, str]],
    writer: StateWriter,
    emit: Callable[[dict[str, str]], None],
    *,
    full: bool = False,
    allow_mass_delete: bool = False,
) -> Difference:
    """Hand on what must be sent, and write the state as it is once that was accepted.

    :param site: the elements of the entire site; a deletion among them means that the URL is not there.
    :param writer: takes the new state; neither closed nor abandoned here.
    :param emit: takes each element to be sent: in a full set all of them, else what was added or changed, then the
        deletions.
    :raises MassDelete: after the additions and changes, before any deletion.
    :raises SiteFault: an element without a conceptual URL.
    :raises lcc.provider.statefile.StateDamaged: never for a full set, which does without the old state then.
    """
    known = _load(state, full)
    known_count = len(known)
    added = changed = repeated = still_there = total = 0
    for attributes in site:
        entry = entry_of(attributes)
        if not entry.curl:
            raise SiteFault(f"container {total + 1} has no conceptual URL (curl or c)")
        if is_deletion(attributes):
            continue
        key = url_key(entry.curl, entry.mimetype)
        before = known.get(key)
        if before is _SEEN:
            repeated += 1
            continue
        known[key] = _SEEN
        total += 1
        writer.add(entry)
        if before is None:
            added += 1
        else:
            still_there += 1
            if before == entry.digest:
                if full:
                    emit(attributes)
                continue
            changed += 1
        emit(attributes)
    deleted = known_count - still_there
    if not allow_mass_delete:
        if known_count and not total:
            raise MassDelete(f"the input names no URL: all {known_count:,} would be deleted")
        if known_count >= MASS_DELETE_MINIMUM and deleted * 2 > known_count:
            raise MassDelete(f"{deleted:,} of {known_count:,} URLs would be deleted")
    if deleted and not full:
        for gone in state.entries():
            if known[url_key(gone.curl, gone.mimetype)] is not _SEEN:
                emit(_deletion(gone))
    return Difference(total, added, changed, deleted, repeated)


def _load(state: StateFile, full: bool) -> dict[bytes, str]:
    known: dict[bytes, str] = {}
    try:
        for entry in state.entries():
            known[url_key(entry.curl, entry.mimetype)] = entry.digest
    except StateDamaged:
        if not full:
            raise
        known.clear()
    return known


def _deletion(gone: StateEntry) -> dict[str, str]:
    if not gone.mimetype:
        return {"c": gone.curl, "op": "delete"}
    return {"c": gone.curl, "m": gone.mimetype, "op": "delete"}
