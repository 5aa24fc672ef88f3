r"""Normal values: those of an element's attributes that pass every check, and are normal as they stand.

For the usual attributes of the usual element there is a pattern here.  If each value matches its own, then
:meth:`lcc.domain.notices.elements.ElementChecker.check` would refuse nothing (but for a mime type that is not
accepted), and would change nothing:

* a URL is one of the set's *bases* and what may stand behind it.  A base is normal, without query, and inside the
  roots; behind it come only characters that are not recoded, and no segment that begins with a dot: so the whole is
  normal (:func:`lcc.domain.urls.normalise`) and has the base as a prefix.  Percent-encoding is taken in upper case,
  and not of characters that need none.  With a urlprefix the URL must not name a scheme of its own;
* lengths are below all limits;
* the hash, the length and the time are spelled as they would be written.

The patterns are for values as they stand in XML: ``&`` comes as ``&amp;``, and apostrophes and quotes are left out.
A test compares this with the long way, for arbitrary values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lcc.domain.urls import Roots, is_surely_normal

_BASE_CHARS = 800
_LETTERS = r"-A-Za-z0-9._~!$()*+,;=:@?"
"""What may stand in a path or a query, but for ``/``, ``&`` and ``'``."""
_NEEDLESS = "2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]"
"""Percent-encodings of characters that need none."""
# At most 200 + 15 * (5 + 200) characters.
_BEHIND = rf"[{_LETTERS}]{{0,200}}+(?:(?:/(?!\.)|&amp;|%(?!{_NEEDLESS})[0-9A-F]{{2}})[{_LETTERS}]{{0,200}}+){{0,15}}+"
_RELATIVE = rf"(?=[^.\"])(?![A-Za-z][A-Za-z0-9+.-]*+://){_BEHIND}"
_BASE = re.compile(rf"[{_LETTERS}/]+").fullmatch

_TYPE_NAME = r"[a-z0-9][a-z0-9!#$^_.+-]{0,126}"
_TYPE = rf"{_TYPE_NAME}/{_TYPE_NAME}"
_NUMBER = r"(?:0|[1-9][0-9]{{0,{}}})"

CURL = frozenset({"curl", "c"})
TYPE = frozenset({"mimetype", "m"})

VALUES = {
    "mimetype": _TYPE,
    "m": _TYPE,
    "md5": "[0-9a-f]{32}",
    "len": _NUMBER.format(14),
    "mtime": _NUMBER.format(11),
}
"""The patterns of all but the URL."""


def normal_base(urlprefix: str, roots: Roots) -> str | None:
    """The urlprefix, if whatever normal text follows it is a normal URL inside the roots.  None: it is not so."""
    return urlprefix if _is_base(urlprefix) and roots.contains(urlprefix) else None


def relative_urls() -> str:
    """The pattern of URLs that the urlprefix stands before."""
    return _RELATIVE


def absolute_urls(roots: Roots) -> str | None:
    """The pattern of URLs in a set without urlprefix.  None: no root is normal."""
    bases = [re.escape(root) for root in roots.prefixes if _is_base(root)]
    return rf"(?:{'|'.join(bases)})(?!\.){_BEHIND}" if bases else None


def _is_base(url: str) -> bool:
    return len(url) <= _BASE_CHARS and "?" not in url and is_surely_normal(url) and _BASE(url) is not None


def is_usual(names: Iterable[str]) -> bool:
    """Whether an element with these attributes, each value normal, takes the fast path: one conceptual URL, one
    mime type, and nothing but what has a pattern."""
    rest = set(names)
    for needed in (CURL, TYPE):
        if len(rest & needed) != 1:
            return False
        rest -= needed
    return rest <= VALUES.keys()
