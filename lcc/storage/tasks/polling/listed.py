"""The site's own words (the source ``listed``) on their way to the UNS: what of them is not the provider's whose
document has named it is nobody's own word, and goes on as a hint, as if anybody's feed had named it."""

from __future__ import annotations

import json
from collections.abc import Collection

from lcc.interfaces import ITaskRules
from lcc.model.tasks import NOBODY, Asking, JobNotice
from lcc.storage.tasks.outbox import add_set
from lcc.storage.tasks.polling.robots import notify
from lcc.storage.tasks.write import TaskWrite

_OF_HINTS = ("update", "recheck")
"""Nobody but the site itself deletes its pages, or takes its own word back."""


def part_listed(write: TaskWrite, rules: ITaskRules, number: int, own: Collection[str], why: str) -> None:
    """In the place of this set comes one with its provider's own words, and hints.

    :param own: URLs of the provider.
    :param why: the others are hints, for people.
    """
    row = write.txn.one("SELECT pid, root, source, connorder, urls, job FROM tasknotices WHERE number = ?", [number])
    if row is None:
        return  # this was done before
    pid, root, source, order, text, job = row
    urls = json.loads(text)
    kept = [url for url in urls if url["c"] in own]
    if kept:
        add_set(write, Asking(pid, order), root, source, kept, job)
    others = [url for url in urls if url["c"] not in own]
    hints = [
        JobNotice(url["c"], "feed", url.get("op", "update"), url.get("m", ""))
        for url in others
        if url.get("op", "update") in _OF_HINTS
    ]
    if hints:
        write.tell(job, "info", f"{len(hints)} URLs go on as hints: {why}")
        notify(write, rules, hints, NOBODY, job)
    if len(hints) < len(others):
        write.tell(job, "error", f"{len(others) - len(hints)} URLs are neither deleted nor retracted: {why}")
    write.txn.execute("DELETE FROM tasknotices WHERE number = ?", [number])
