"""What a soak of all roles has shown: each promise, whether it was kept, the figures and their limit.

The first quarter of the time warms up: caches fill, and the heaps become as large as their peaks.  Each of the others
is judged.  Of memory only what a process has allocated counts, not the pages of files that are mapped.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from soak.finding import Finding
from soak.quarters import quarters
from soak.roles.lccs import SEGMENT_BYTES
from soak.roles.watch import Look, Sizes

FLAT = 1.01
CHILDREN_FLAT = 1.05
"""Workers of jobs come and go."""
HANDLES_MORE = 5
"""Connections, and files of the index, that happen to be open when somebody looks."""
ROW_BYTES = 1100
"""Of a row with its indexes: row_bytes in doc/growth.md."""
ROWS_FLAT, ROWS_MORE = 1.02, 20
DATABASE_SLACK_BYTES = 2 << 20
SEGMENT_SLACK = 1.5
"""What a page or a batch may take a file beyond the size from which on a store begins the next one."""
FILES_MORE = 1.1
FOUND_PART = 0.95
WORK = (
    "sets",
    "asked provider",
    "asked feed/feed.xml",
    "asked sitemap/sitemap.xml",
    "asked sitemap",
    "asked crawled",
    "asked pushed",
    "hub pushes",
    "hub subscribe",
    "pushes",
    "reports",
    "searches",
    "found what is new",
    "changes read",
    "items read",
    "contents read",
    "packages",
    "subscribed",
    "deliveries",
)
"""What is to be done in each quarter: see world.py."""
KEPT_LONGER = {
    "pushset": "[push] keep has an hour at least",
    "taskorders": "orders to the scheduler, with their answers, are kept for an hour",
}
"""Tables whose rows are kept for longer than a soak lasts, and why."""

_Any = TypeVar("_Any")


def worked(counts: Sequence[Mapping[str, float]]) -> Finding:
    """Each thing was done in each quarter."""
    lacking, rates = [], []
    ends = [part[0] for part in quarters(counts)] + [counts[-1]]
    for what in WORK:
        done = [after.get(what, 0) - before.get(what, 0) for before, after in pairwise(ends)]
        lacking += [what] if min(done) <= 0 else []
        rates.append(f"{what} {done[-1]:.0f}")
    figures = f"in the last quarter: {', '.join(rates)}" + (f"; not in each: {', '.join(lacking)}" if lacking else "")
    return Finding("every role works all the time", not lacking, figures, "each of these in each quarter")


def unfailing(counts: Mapping[str, float], logs: Iterable[tuple[str, str]]) -> Finding:
    """Nothing was refused or failed, no role has logged a traceback."""
    failed = [f"{what} ({number:.0f})" for what, number in counts.items() if what.startswith("failed")]
    failed += [f"{name} logs a traceback" for name, log in logs if "Traceback" in log or "Unhandled" in log]
    return Finding("nothing fails", not failed, ", ".join(failed) or "nothing has", "nothing")


def fresh(counts: Sequence[Mapping[str, float]]) -> Finding:
    """The search finds what has changed a minute ago."""
    begin, end = quarters(counts)[0][0], counts[-1]
    asked, found = (
        end.get(what, 0) - begin.get(what, 0) for what in ("searches for what is new", "found what is new")
    )
    kept = asked > 0 and found >= FOUND_PART * asked
    return Finding("the search keeps up", kept, f"{found:.0f} of {asked:.0f} searches", f"{100 * FOUND_PART:g} %")


def _parts(found: Sequence[_Any], value: Callable[[_Any], float]) -> list[float]:
    return [statistics.median(value(each) for each in part) for part in quarters(found)]


def flat_memory(looks: Sequence[Look]) -> Finding:
    """What a process has allocated is the same in each of the quarters, to 1 %."""
    kept, texts = True, []
    for name in looks[0].own_mb:
        sizes = _parts(looks, lambda look, name=name: look.own_mb[name])  # type: ignore[misc]
        flat = max(sizes) <= FLAT * min(sizes)
        kept = kept and flat
        texts.append(f"{name} {_listed(sizes)} MB{'' if flat else ' (not flat)'}")
    return Finding("memory of each role is flat", kept, ", ".join(texts), "1 % above the least")


def flat_children(looks: Sequence[Look]) -> Finding:
    """So is that of their workers, all together of a role."""
    kept, texts = True, []
    for name in looks[0].children_mb:
        sizes = _parts(looks, lambda look, name=name: look.children_mb[name])  # type: ignore[misc]
        if max(sizes):
            flat = max(sizes) <= CHILDREN_FLAT * min(sizes)
            kept = kept and flat
            texts.append(f"{name} {_listed(sizes)} MB{'' if flat else ' (not flat)'}")
    limit = f"{100 * (CHILDREN_FLAT - 1):.0f} % above the least"
    return Finding("memory of workers is flat", kept and bool(texts), ", ".join(texts), limit)


def flat_handles(looks: Sequence[Look]) -> Finding:
    """Files, sockets and pipes do not pile up."""
    kept, texts = True, []
    for name in looks[0].handles:
        counts = _parts(looks, lambda look, name=name: look.handles[name])  # type: ignore[misc]
        flat = max(counts) <= min(counts) + HANDLES_MORE
        kept = kept and flat
        texts.append(f"{name} {_listed(counts, 0)}{'' if flat else ' (not flat)'}")
    return Finding("open files are flat", kept, ", ".join(texts), f"{HANDLES_MORE} above the least")


def flat_tables(sizes: Sequence[Sizes]) -> Finding:
    """No table grows, but those that keep for longer than this."""
    first, *_, last = quarters(sizes)
    grown, longer = [], []
    for table in last[-1].rows:
        # What waits in some of them, such as files to be removed, varies from moment to moment.
        before = statistics.median(each.rows.get(table, 0) for each in first)
        after = statistics.median(each.rows.get(table, 0) for each in last)
        if after > ROWS_FLAT * before + ROWS_MORE:
            kept_longer = table.split()[1] in KEPT_LONGER
            (longer if kept_longer else grown).append(f"{table} {before:.0f} to {after:.0f}")
    total = sum(last[-1].rows.values())
    figures = f"{total} rows in {len(last[-1].rows)} tables; grown: {', '.join(grown) or 'none'}"
    if longer:
        figures += f"; kept for longer than a soak: {', '.join(longer)}"
    limit = f"{100 * (ROWS_FLAT - 1):.0f} % and {ROWS_MORE} rows from the second quarter to the last"
    return Finding("no table grows", not grown, figures, limit)


def reckoned_databases(sizes: Sequence[Sizes]) -> Finding:
    """The databases grow by their rows, and by no more."""
    first, *_, last = quarters(sizes)
    kept, texts = True, []
    for name in last[-1].database_bytes:
        before = max(each.database_bytes[name] for each in first)
        after = max(each.database_bytes[name] for each in last)
        new = _rows(last[-1], name) - _rows(first[-1], name)
        limit = before + max(0, new) * ROW_BYTES + DATABASE_SLACK_BYTES
        kept = kept and after <= limit
        texts.append(f"{name} {before / 1e6:.1f} to {after / 1e6:.1f} MB ({new} rows more)")
    text = f"{ROW_BYTES} bytes for each further row, and {DATABASE_SLACK_BYTES >> 20} MiB"
    return Finding("databases are as large as reckoned", kept, ", ".join(texts), text)


def _rows(sizes: Sizes, name: str) -> int:
    return sum(count for table, count in sizes.rows.items() if table.split()[0] == name)


def rotated(sizes: Sequence[Sizes]) -> Finding:
    """The stores of the spider begin new files in time."""
    last = sizes[-1]
    kept = last.segments > 0 and all(size <= SEGMENT_SLACK * SEGMENT_BYTES for size in last.segment_bytes.values())
    figures = ", ".join(f"{store} {size / 1e6:.2f} MB" for store, size in last.segment_bytes.items())
    figures += f" in the longest file; {last.segments} files closed"
    return Finding("stores rotate", kept, figures, f"{SEGMENT_SLACK * SEGMENT_BYTES / 1e6:.2f} MB, some are closed")


def flat_folders(sizes: Sequence[Sizes]) -> Finding:
    """Spools, content and the index do not grow."""
    first, *_, last = quarters(sizes)
    kept, texts = True, []
    for name in last[-1].folder_bytes:
        # While the index merges its segments it has some of them twice.
        before, *_, after = _parts(sizes, lambda each, name=name: each.folder_bytes.get(name, 0))  # type: ignore[misc]
        kept = kept and after <= FILES_MORE * before + DATABASE_SLACK_BYTES
        texts.append(f"{name} {before / 1e6:.1f} to {after / 1e6:.1f} MB")
    for name in last[-1].content_files:
        before = max(each.content_files.get(name, 0) for each in first)
        after = max(each.content_files.get(name, 0) for each in last)
        kept = kept and after <= FILES_MORE * before + ROWS_MORE
        texts.append(f"{name} content {before} to {after} files")
    limit = f"{100 * (FILES_MORE - 1):.0f} % and {DATABASE_SLACK_BYTES >> 20} MiB or {ROWS_MORE} files more"
    return Finding("folders do not grow", kept, ", ".join(texts), limit)


def _listed(values: Sequence[float], digits: int = 1) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


def judge(
    looks: Sequence[Look],
    sizes: Sequence[Sizes],
    counts: Sequence[Mapping[str, float]],
    logs: Iterable[tuple[str, str]],
) -> list[Finding]:
    """All promises."""
    return [
        worked(counts),
        unfailing(counts[-1], logs),
        fresh(counts),
        flat_memory(looks),
        flat_children(looks),
        flat_handles(looks),
        flat_tables(sizes),
        reckoned_databases(sizes),
        flat_folders(sizes),
        rotated(sizes),
    ]
