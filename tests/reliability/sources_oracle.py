"""What must hold of pages that several sources name (:mod:`sites`), and of those who follow them, besides what must
hold of each LCC (:mod:`oracle`).

At rest, nobody having changed or told anything any more, and each document having been polled since:

* A page that exists is cached if a source names it for sure, and only if one may name it: the last of its sets, as
  :func:`oracle.candidates` has it; a push, ever, that was answered 2xx; the sitemap as it is; the feed as it is.
  What was pushed or told without an answer may name it.  No version is older than what a source has told of it for
  sure.
* A page that is gone is not cached if its site has deleted it in a set that was accepted, or pushed it since with an
  answer of 2xx, or if only documents named it.  If nobody has said that it is gone it may be there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from .cluster import Registered
from .evidence import Evidence, Row
from .journal import ACCEPTED, DELETE, UNKNOWN, Changed, Journal, Push
from .oracle import (
    Case,
    Violation,
    candidates,
    check_alarms,
    check_answers,
    check_books,
    check_connections,
    check_content,
    check_serial,
    judge,
)
from .pages import content, version_of
from .sites import DOCUMENTS, title

CHECKS = (check_answers, check_content, check_books, check_alarms, check_connections, check_serial)
"""Those of the oracle that know nothing of single operations."""
TAKEN = (200, 202)


def without_documents(evidence: Evidence) -> Evidence:
    """What content users may see: documents that are only polled are no pages."""
    return attrs.evolve(evidence, rows=[row for row in evidence.rows if row.curl.rsplit("/", 1)[-1] not in DOCUMENTS])


def judge_sources(sites: list[Registered], newcomers: list[Registered], whole: Case) -> Iterator[Violation]:
    """All broken promises.

    :param whole: of all providers.
    """
    yield from check_pages(_case_of(sites, whole))
    # These have no sources but their own.
    yield from judge(_case_of(newcomers, whole))
    for check in CHECKS:
        yield from check(whole)


def _case_of(providers: list[Registered], whole: Case) -> Case:
    """All that there is of these providers."""
    pids = {each.pid for each in providers}
    journal, evidence = whole.journal, whole.evidence
    return Case(
        providers,
        whole.port,
        attrs.evolve(
            journal,
            sets={number: told for number, told in journal.sets.items() if told.pid in pids},
            welcomes=[each for each in journal.welcomes if each.pid in pids],
        ),
        attrs.evolve(
            evidence,
            rows=[row for row in evidence.rows if row.pid in pids],
            kept=[each for each in evidence.kept if each.pid in pids],
            stats={pid: stats for pid, stats in evidence.stats.items() if pid in pids},
        ),
        whole.faults,
    )


# The cache.


@attrs.define
class Named:
    """Who names a page.

    :ivar surely, perhaps: sources.
    :ivar version: it has been told for sure that there is this version, or a later one.
    """

    surely: set[str] = attrs.field(factory=set)
    perhaps: set[str] = attrs.field(factory=set)
    version: int = 0

    def by(self, source: str, version: int) -> None:
        """A source does, for sure."""
        self.surely.add(source)
        self.version = max(self.version, version)


def version_at(history: Sequence[Changed], when: float) -> int:
    """Of a page, at a time."""
    return max((each.version for each in history if each.time <= when), default=history[0].version)


def named(case: Case, provider: Registered, name: str) -> Named:
    """Who names this page in the end."""
    found = Named()
    history = case.journal.pages[provider.pid, name]
    sets = sorted((told for told in case.journal.of(provider.pid) if told.seq), key=lambda told: -told.welcomed)
    ops = candidates(sets, name)
    versions = [op.version for op in ops if op is not None]
    if versions and len(versions) == len(ops):
        found.by("told", min(versions))
    elif versions:
        found.perhaps.add("told")
    for push in _pushes(case.journal, provider.pid, name):
        if push.status in TAKEN:
            found.by("pushed", version_at(history, push.time))
        else:
            found.perhaps.add("pushed")
    if history[-1].listed:
        found.by("listed", history[-1].version)
    if history[-1].item:
        found.by("item", history[-1].version)
    return found


def _pushes(journal: Journal, pid: int, name: str) -> list[Push]:
    """Those that were accepted, or may have been."""
    return [
        push
        for push in journal.pushes.values()
        if push.pid == pid and name in push.names and (push.status in TAKEN or push.status in (0, 500, 503))
    ]


def is_deleted(case: Case, provider: Registered, name: str) -> bool:
    """Whether the LCC must know that a page is gone which is."""
    since = next(each.time for each in case.journal.pages[provider.pid, name] if not each.exists)
    sets = [told for told in case.journal.of(provider.pid) if told.how == ACCEPTED and name in told.ops]
    if any(told.ops[name].kind == DELETE for told in sets):
        return True
    pushes = _pushes(case.journal, provider.pid, name)
    if any(push.status in TAKEN and push.time > since for push in pushes):
        return True
    told = [each for each in case.journal.of(provider.pid) if each.how in (ACCEPTED, UNKNOWN) and name in each.ops]
    return not told and not pushes


def check_pages(case: Case) -> Iterator[Violation]:
    """Each page is in the cache as its sources leave it."""
    rows: dict[str, list[Row]] = {}
    for row in case.evidence.rows:
        if row.cached:
            rows.setdefault(row.curl, []).append(row)
    for provider in case.providers:
        root = f"http://127.0.0.1:{case.port}/{provider.name}/"
        names = {name for pid, name in case.journal.pages if pid == provider.pid}
        for curl in rows:
            if curl.startswith(root) and curl.removeprefix(root) not in names:
                yield Violation("P5", f"{curl} is cached, and has never been")
        for name in sorted(names):
            there = rows.get(root + name, [])
            wrong = _wrong(case, provider, name, there)
            if wrong:
                history = case.journal.pages[provider.pid, name]
                yield Violation("P2/P5", f"{root}{name}, in the end {history[-1]}: {wrong}")


def _wrong(case: Case, provider: Registered, name: str, there: list[Row]) -> str:
    """What is wrong with a page; empty: nothing."""
    who = named(case, provider, name)
    if not case.journal.pages[provider.pid, name][-1].exists:
        return (
            "it is cached, though the LCC knows that it is gone" if there and is_deleted(case, provider, name) else ""
        )
    if not there:
        return f"it is not cached, and is {'/'.join(sorted(who.surely))}" if who.surely else ""
    if not who.surely and not who.perhaps:
        return "it is cached, and nobody names it"
    for row in there:
        version = None if row.data is None else version_of(case.path(provider, name), row.data)
        if version is None:
            return "what is cached is no version of it"
        if version < who.version:
            return f"version {version} is cached, there is {who.version}, says {'/'.join(sorted(who.surely))}"
    return ""


# Those who follow.


def check_items(case: Case, items: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    """Each item of each feed is there once, as it is now.

    :param items: all that content users get.
    """
    found = Counter((item["link"], item["title"]) for item in items)
    wanted = Counter(
        (f"http://127.0.0.1:{case.port}/{provider.name}/{name}", title(name, history[-1].version))
        for provider in case.providers
        for (pid, name), history in case.journal.pages.items()
        if pid == provider.pid and history[-1].item
    )
    for item in sorted((found - wanted).keys() | (wanted - found).keys()):
        yield Violation("items", f"{item} is there {found[item]} times, and should be {wanted[item]} times")


def check_subscriber(case: Case) -> Iterator[Violation]:
    """The subscriber has heard of the last change of each page, and of nothing that is not so."""
    for why in case.journal.unheard:
        yield Violation("hub", f"the subscriber was told: {why}")
    # A page may have two views: as it was told, with a mime type, and as others name it.
    rows = {
        row.curl: (row.change, "cached" if row.cached else "deleted")
        for row in sorted(case.evidence.rows, key=lambda row: row.change or 0)
        if row.change
    }
    for curl in sorted(rows.keys() | case.journal.heard.keys()):
        if rows.get(curl) != case.journal.heard.get(curl):
            yield Violation(
                "hub", f"{curl}: it is {rows.get(curl)}, the subscriber has {case.journal.heard.get(curl)}"
            )


def word_of(path: str, version: int) -> str:
    """One that stands in this version of a page, and nowhere else."""
    return content(path, version).split(b"\n", 1)[1].split(b" ", 1)[0].decode()


def check_search(case: Case, search: Any) -> Iterator[Violation]:
    """The search finds each page that is cached by what it has now; no page by what it had, or once it is gone.

    :param search: gives the URLs of the pages with a word.
    """
    cached = {row.curl: row for row in case.evidence.rows if row.cached}
    for provider in case.providers:
        for (pid, name), history in sorted(case.journal.pages.items()):
            if pid != provider.pid:
                continue
            path, curl = case.path(provider, name), f"http://127.0.0.1:{case.port}{case.path(provider, name)}"
            row = cached.get(curl)
            now = None if row is None or row.data is None else version_of(path, row.data)
            for version in {history[-1].version, now or 1, max(1, (now or 1) - 1)}:
                wanted = [curl] if version == now else []
                found = search(word_of(path, version))
                if found != wanted:
                    yield Violation("search", f"version {version} of {path}: {found} instead of {wanted}")


def check_reports(case: Case, reports: Mapping[int, Sequence[Mapping[str, Any]]]) -> Iterator[Violation]:
    """Each push was told.

    :param reports: provider -> what the push server says of its key.
    """
    for provider in case.providers:
        taken = [each for each in case.journal.pushes.values() if each.pid == provider.pid and each.status in TAKEN]
        for report in reports[provider.pid]:
            if report["state"] != "proven":
                yield Violation("push", f"the key of {provider.name} is {report['state']}: {report['reason']}")
            for push in report["pushes"]:
                if push["state"] != "told":
                    yield Violation("push", f"a push of {provider.name} is {push}")
        if taken and not any(report["pushes"] for report in reports[provider.pid]):
            yield Violation(
                "push", f"{len(taken)} pushes of {provider.name} were accepted, and nothing is known of any"
            )
