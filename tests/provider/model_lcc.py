"""The state file's other end, without a connection: what an LCC makes of what a run of the tools would send it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from lcc.domain.mimetypes import MimePatterns
from lcc.domain.notices.elements import ElementChecker, ElementError
from lcc.domain.urls import Roots
from lcc.protocols.cp_uns import InitAccepted, UrlFault
from lcc.provider.client import Submission
from lcc.provider.delivery import Delivery, Noted
from lcc.provider.site_diff import Difference, compare
from lcc.provider.spool import spool_stream
from lcc.provider.statefile import StateFile, StateWriter
from lcc.provider.stream_format import Header, StreamWriter

ROOT = "http://site.example/"


@attrs.define
class ModelLcc:
    """Takes sets as the UNS and the queue manager do: each element checked and made normal, in order.

    :ivar cache: (URL, mime type) -> md5 of what was told.
    :ivar deletions: (URL, mime type) that were deleted by name, ever.
    """

    roots: tuple[str, ...] = (ROOT,)
    welcome: InitAccepted = InitAccepted(1, "", ("text/*",))
    cache: dict[tuple[str, str], str] = attrs.field(factory=dict)
    deletions: list[tuple[str, str]] = attrs.field(factory=list)
    last: list[dict[str, str]] = attrs.field(factory=list)

    def take(
        self, elements: Iterable[dict[str, str]], prefix: str, full: bool, refuse: Callable[[UrlFault], None]
    ) -> Submission:
        """The answer to a set."""
        checker = ElementChecker(Roots(self.roots), MimePatterns(["text/*"]), "", prefix)
        before, named = dict(self.cache), set()
        self.last = list(elements)
        faults = 0
        for attributes in self.last:
            try:
                notice = checker.check(attributes)
            except ElementError as error:
                faults += 1
                refuse(UrlFault(error.code, error.text, error.url, attributes))
                if error.named is not None:
                    named.add((error.named.curl, error.named.mimetype))
                continue
            assert notice is not None
            key = (notice.curl, notice.mimetype)
            if not notice.delete:
                named.add(key)
                self.cache[key] = notice.md5
                continue
            self.deletions.append(key)
            for url, mimetype in list(self.cache):
                if url == notice.curl and notice.mimetype in ("", mimetype):
                    del self.cache[url, mimetype]
        if full:
            for key in before.keys() - named:
                del self.cache[key]
        sent = len(self.last)
        return Submission(True, self.welcome, 0, "", sent - faults, sent, True, (), faults)


@attrs.frozen
class Run:
    """What came of one run of lcccpstate and lcccp.

    :ivar retold: what lcccp says of URLs that are told again.
    """

    difference: Difference
    noted: Noted
    sent: list[dict[str, str]]
    trouble: str
    retold: int = 0


def publish(
    lcc: ModelLcc,
    statefile: Path,
    site: Iterable[dict[str, str]],
    *,
    prefix: str = ROOT,
    state_prefix: str = "",
    full: bool = False,
    fate: str = "accepted",
    token: str = "t",
    now: int = 0,
    retry_failed: bool = False,
) -> Run:
    """One run of the two tools.

    :param prefix: ``--urlprefix`` of lcccp.
    :param state_prefix: that of lcccpstate.
    :param now: seconds since 1970, for both.
    :param fate: "accepted"; "lost": the LCC took it, and nobody heard; "cut": it did not, and nobody knows.
    """
    state = StateFile(statefile)
    state.adopt_pending(token)
    sink = io.BytesIO()
    writer = StateWriter(state.pending, token, state_prefix or state.urlprefix())
    stream = StreamWriter(sink, Header("lcccpstate", full, state.path, token, writer.urlprefix))
    try:
        found = compare(
            state, site, writer, stream.write, now=now, full=full, retry_failed=retry_failed, allow_mass_delete=True
        )
        writer.close()
    except BaseException:
        writer.abandon()
        raise
    stream.close(found.added, found.changed, found.deleted, found.retold, found.resolved, found.waiting)
    with spool_stream(io.BytesIO(sink.getvalue()), False, True, True) as spool:
        delivery = Delivery(spool, state, prefix)
        try:
            delivery.prepare()
        except BaseException:
            state.discard(token)
            raise
        noted = delivery.greeted(lcc.welcome, now)
        if fate == "cut":
            return Run(found, noted, [], "")
        plan = delivery.plan
        if plan.elements or full or lcc.welcome.error_count:
            submission = lcc.take(delivery.elements(), prefix, full, delivery.refused)
        else:
            lcc.last = []
            submission = Submission(True, lcc.welcome)
        sent = list(lcc.last)
        assert len(sent) == plan.elements or found.deleted
        trouble = delivery.accepted(submission) if fate == "accepted" else ""
        return Run(found, noted, sent, trouble, delivery.retold)
