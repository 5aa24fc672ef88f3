"""Content files of another LCC that a *carrier* has here (doc/moves.md): their URLs, and what a batch brings.

Each file is a cached row of the carrier, whatever brought it.  What a batch does not bring, for good, is noted
(``staged``, :data:`MISSED`), so that the move asks for these files one by one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from lcc.errors import CODES
from lcc.interfaces import IQueueRules
from lcc.model import ANY_TYPE, FetchResult, Outcome, QueueRow, UrlNotice
from lcc.model.content_batches import StoredFile, count_of, read_names, read_stored, subtype_of, write_names
from lcc.storage.database.tables.content_rows import rows_of_files
from lcc.storage.database.tables.rows import CACHE, CACHED, empty_cache_row
from lcc.storage.queue.moves.paged import STAGED
from lcc.storage.queue.registered import registered_providers
from lcc.storage.queue.results.result_rows import ResultRows

MISSED = "missed"
_QUERY = "?relay=yes"
_ROBOT_ERROR = CODES["robot-error"]
_UNSUPPORTED = CODES["scheme-unsupported"]
_TYPE = "application/octet-stream"


def carried_url(content: str, name: str) -> str:
    """Where a content file is read at the source: whichever machine has it, at this port.

    :param name: ``MACHINE/FILE``; or those of a batch.
    """
    return f"{content.rstrip('/')}/{name}{_QUERY}"


def carried_key(rules: IQueueRules, carrier: int, content: str, name: str) -> bytes:
    """The key of a content file's row here."""
    return rules.key(carrier, carried_url(content, name), ANY_TYPE)


def carried_notice(content: str, name: str) -> UrlNotice:
    """What is asked for."""
    count = name.count(",") + 1
    subtype = subtype_of(count) if count > 1 else ""
    return UrlNotice(carried_url(content, name), mimetype=ANY_TYPE, subtype=subtype, sent="[]")


def carried_names(url: str) -> tuple[str, list[str]]:
    """The URL of the content port, and the names of the files, one or a batch of them.

    :raises ValueError: it is no such URL.
    """
    content, machine, files = url.removesuffix(_QUERY).rsplit("/", 2)
    return content, [f"{machine}/{file}" for file in read_names(files)]


def batch_names(names: Sequence[str], most: int) -> list[str]:
    """The same files in batches, in the order of their numbers: names of files, and of batches.

    :param most: files of one batch.
    """
    machines: dict[str, list[int]] = {}
    for name in names:
        machine, _, file = name.partition("/")
        machines.setdefault(machine, []).append(int(file))
    return [
        f"{machine}/{write_names(files[first : first + most])}"
        for machine, files in machines.items()
        for files in [sorted(set(files))]
        for first in range(0, len(files), most)
    ]


def is_batch(row: QueueRow) -> bool:
    """Whether it has a batch fetched."""
    return bool(row.notice.subtype) and count_of(row.notice.subtype) > 0


def note_missed(work: ResultRows, row: QueueRow, names: Sequence[str] = ()) -> None:
    """A batch, or these files of it, could not be fetched."""
    if not names:
        names = carried_names(row.notice.curl)[1]
    if registered_providers(work.txn, [row.pid]):
        text = json.dumps({"names": list(names)}, separators=(",", ":"))
        STAGED.upsert(work.txn, [(row.pid, MISSED, row.key, text)])


def record_batch(work: ResultRows, result: FetchResult, row: QueueRow | None) -> FetchResult | Outcome:
    """Take over the files of a batch; or delete them, if nobody wants them any longer.

    :returns: what has become of it; or the result, changed maybe, of a batch that brought no files: it is recorded as
        any other.
    """
    if result.code or (row is None and not result.files):
        return result
    if not result.files:
        # A BOT-M, or a robot, of an older version has stored all of it as one file.
        work.discard_file(result)
        return result._replace(code=_UNSUPPORTED, file=None, machine=None)
    assert result.machine is not None and result.file is not None
    stored = _numbered(result)
    outcome = work.rules.outcome(
        result.code,
        result.generation,
        None if row is None else not row.delete,
        0 if row is None else row.generation,
        0,
    )
    # Only what was fetched for the row as it is: files of an earlier result may have delete orders.
    wanted = count_of(row.notice.subtype) if row is not None and outcome is Outcome.STORE else 0
    if row is not None and wanted == len(stored):
        _store(work, result.machine, stored, row)
        work.take_away(row)
        return outcome
    known = rows_of_files(work.txn, result.machine, [file for file, found in stored if found is not None])
    for file, found in stored:
        if found is not None and file not in known:
            work.write.delete_file(result.machine, file)
    if outcome is Outcome.STORE:
        return result._replace(code=_ROBOT_ERROR, detail="other files than were asked for", file=None, files="")
    return outcome


def _numbered(result: FetchResult) -> list[tuple[int, StoredFile]]:
    stored = read_stored(result.files, result.files.count(",") + 1)
    return list(enumerate(stored, result.file or 0))


def _store(work: ResultRows, machine: int, stored: Sequence[tuple[int, StoredFile]], row: QueueRow) -> None:
    content, names = carried_names(row.notice.curl)
    keys = [carried_key(work.rules, row.pid, content, name) for name in names]
    rows = dict(zip(keys, zip(names, stored, strict=True), strict=True))
    unread = sorted(rows.keys() - work.cache.keys())
    for known in work.txn.query_in(f"{CACHE.select} WHERE urlkey IN ({{in}})", unread):
        work.cache[bytes(known[0])] = dict(zip(CACHE.columns, known, strict=True))
    missed: list[str] = []
    for key, (name, (file, found)) in rows.items():
        if found is None:
            missed.append(name)
            continue
        cached = work.cache.get(key)
        if cached is not None and cached["fetched_fileid"] is not None:
            if (cached["fetched_machineid"], cached["fetched_fileid"]) != (machine, file):
                work.write.delete_file(machine, file)  # it is here already
            continue
        size, md5 = found
        cached = work.cache[key] = cached or empty_cache_row(key, row.pid)
        cached.update(
            state=CACHED,
            curl=carried_url(content, name),
            mimetype=_TYPE,
            md5=md5,
            len=size,
            status=200,
            fetched_time=work.now,
            confirmed_time=work.now,
            fetched_machineid=machine,
            fetched_fileid=file,
            generation=row.generation,
            connseq=row.connseq,
            source=row.source,
            words=row.words,
        )
        work.changed[key] = None
    if missed:
        note_missed(work, row, missed)
