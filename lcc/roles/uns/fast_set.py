"""The fast-path elements of one set: how its provider spells them, and what becomes of them in the spool.

Nearly all elements of a set are spelled alike and are right as they are.  When the first of a spelling has been taken
the long way (parsed, checked, written), :class:`FastSet` lets the feed look for others that differ from it in
nothing but normal values (:mod:`lcc.domain.notices.normal_values`): they come out as the first one did, but for
their values.

What stands in the spool is therefore just what the long way would have written; tests compare both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from lcc.domain.notices.elements import ElementChecker, as_sent
from lcc.domain.notices.normal_values import CURL, TYPE, VALUES, absolute_urls, is_usual, normal_base, relative_urls
from lcc.model import UrlNotice
from lcc.protocols.cp_uns import URL_TAG, FastUrls
from lcc.protocols.fast_elements import FastAttribute, Row, Spelling
from lcc.protocols.uns_qm import write_notice

LONG_SET = 50
"""Elements from which on it is worth while: a spelling takes as long to learn as a hundred elements."""
_SPELLINGS_MAX = 4
_MET_MAX = 16
_MARK = 0xE000  # a private character: in no normal value and no normal base
_MARKS = re.compile("[\ue000-\ue00f]")


class FastSet:
    """What is known of the fast-path elements of one set.

    :ivar spellings: what the feed may look for.
    """

    def __init__(self, checker: ElementChecker) -> None:
        self.spellings: tuple[Spelling, ...] = ()
        self._checker = checker
        self._writers: dict[Spelling, Callable[[list[Row]], str]] = {}
        self._types: dict[Spelling, Callable[[Row], str]] = {}
        self._count = 0
        self._met: set[tuple[str, ...]] = set()
        self._base: str | None = None
        self._urls = ""

    def learn(self, attributes: dict[str, str]) -> bool:
        """An element with these attributes came the long way and was right.  Tells whether it has a new spelling."""
        self._count += 1
        if self._count == LONG_SET:
            self._look_at_base()
        if self._count < LONG_SET or len(self._met) >= _MET_MAX or self._base is None:
            return False
        names = tuple(attributes)
        if names in self._met:
            return False
        self._met.add(names)
        if not is_usual(names) or len(self.spellings) >= _SPELLINGS_MAX:
            return False
        spelling = Spelling(URL_TAG, [FastAttribute(name, VALUES.get(name, self._urls)) for name in names])
        self._writers[spelling] = _writer(names, self._base)
        self._types[spelling] = itemgetter(next(at for at, name in enumerate(names) if name in TYPE))
        self.spellings += (spelling,)
        return True

    def _look_at_base(self) -> None:
        """What is before the URLs, and what these may be; None: they are not normal."""
        checker = self._checker
        if checker.urlprefix:
            self._base, self._urls = normal_base(checker.urlprefix, checker.roots), relative_urls()
        else:
            urls = absolute_urls(checker.roots)
            self._base, self._urls = ("", urls) if urls else (None, "")

    def lines(self, run: FastUrls) -> str | None:
        """The elements as they stand in the spool, a line each.  None: they have a mime type that is not taken."""
        if not self._checker.accepts(set(map(self._types[run.spelling], run.rows))):
            return None
        return self._writers[run.spelling](run.rows)


def _writer(names: tuple[str, ...], base: str) -> Callable[[list[Row]], str]:
    """What writes elements with these attributes: as one is written in which every value is a mark."""
    marks = {name: chr(_MARK + at) for at, name in enumerate(names)}
    values: dict[str, Any] = marks
    curl = next(mark for name, mark in marks.items() if name in CURL)
    mimetype = next(mark for name, mark in marks.items() if name in TYPE)
    notice = UrlNotice(
        base + curl,
        mimetype=mimetype,
        md5=marks.get("md5", ""),
        length=values.get("len"),
        mtime=values.get("mtime"),
        sent=as_sent(marks),
    )
    line = write_notice(notice)
    order = [ord(mark) - _MARK for mark in _MARKS.findall(line)]
    fill = _MARKS.sub("%s", line.replace("%", "%%")).__mod__
    pick = itemgetter(*order)
    return lambda rows: "\n".join(map(fill, map(pick, rows)))
