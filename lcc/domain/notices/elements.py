"""One ``<url>`` element: what a provider told, checked and resolved (design 3.1).

Rules, in the order in which they are checked; the first that is broken is the element's error:

1. no attribute is too long (URLs 4096 characters, others 1024), and none is given both long and short with different
   values ("too-long", "conflict");
2. ``curl`` is there, not empty, and a URL ("curl-missing", "bad-url", "bad-scheme", "user-info");
3. ``op`` ("bad-op"); ``browse``, ``ifabsent``, ``outside`` ("bad-flag");
4. ``furl``, ``burl`` are URLs; an empty ``furl`` means delete, an absent one that it is ``curl``;
5. ``curl`` and ``furl`` are inside the provider's roots ("outside-roots", or dropped);
6. the mime type ("mimetype-missing", "bad-mimetype", "mimetype-not-accepted");
7. ``md5``, ``len``, ``mtime`` ("bad-md5", "bad-len", "bad-mtime");
8. ``hours`` ("bad-hours", "hours-never").

Of a deletion only what it uses is checked: rules 1 to 3, the roots of ``curl`` (also those that the provider had
earlier), and the form of a mime type.

What others tell than the provider itself (:mod:`lcc.model.sources`) may come without a mime type; it may be a
``recheck``, or a ``retract`` of what they have told, which is checked as a deletion.  A hint is ``ifabsent``, and
deletes nothing; nor does a poll, which may be anywhere on the provider's sites, and of any type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain

from lcc.domain.fetches.hours import parse_hours
from lcc.domain.mimetypes import ANY, MimePatterns, normalise_mimetype
from lcc.domain.times import parse_time
from lcc.domain.urls import URL_CHARS, Roots, normalise, normalise_prefix, resolve, scheme_of, site_of
from lcc.errors import SetError, UrlError
from lcc.model import HINTS, SITE, Source, UrlNotice
from lcc.numbers import parse_number

TEXT_CHARS = 1024
"""The longest attribute that is no URL."""

NOT_BROWSABLE = "-"

_URLS = frozenset({"curl", "c", "furl", "f", "burl", "b"})
_TEXTS = frozenset(
    {"mimetype", "m", "subtype", "s", "md5", "len", "mtime", "op", "hours", "browse", "ifabsent", "outside"}
)
_PAIRS = (("curl", "c"), ("furl", "f"), ("burl", "b"), ("mimetype", "m"), ("subtype", "s"))
_MIMES = ("mimetype", "m")
_LONG = frozenset(long for long, _short in _PAIRS)
_RARE = frozenset({"op", "browse", "ifabsent", "outside", "b", "hours", "s"})

_MD5 = re.compile(r"[0-9a-fA-F]{32}").fullmatch
_LENGTH_MAX_BYTES = 10**15 - 1
_SUBTYPE = re.compile(r"[^\s:]+:.*\S.*").fullmatch
_CACHED = 1000

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class ElementError(UrlError):
    """An element is refused.

    :ivar url: the resolved fetch URL as far as it is known; else empty.
    :ivar named: what tells a full set that the URL was named although it was refused; without a mime type, where that
        could not be understood: all views were.  None where curl could not be understood.
    """

    def __init__(self, name: str, detail: str, url: str, named: UrlNotice | None) -> None:
        super().__init__(name, detail)
        self.url = url
        self.named = named


class ElementChecker:
    """Checks the elements of one set.

    :param roots: the provider's.
    :param mimetypes: what the LCC takes.
    :param provider_hours: when the provider allows fetching; empty: always.
    :param urlprefix: the set's.
    :param slots: of the LCC's period (see :func:`lcc.domain.fetches.hours.parse_hours`).
    :param former_roots: where deletions are taken, too: what was told there may still be cached.
    :param source: whose word the set is.
    :raises lcc.errors.SetError: "bad-prefix": with it the whole set is to be rejected.
    :raises ValueError: the provider's hours cannot be understood.
    :ivar roots, urlprefix: as given.
    :ivar blanked_subtypes: how many elements were taken without their subtype, which was not ``type: value``.
    """

    def __init__(
        self,
        roots: Roots,
        mimetypes: MimePatterns,
        provider_hours: str,
        urlprefix: str,
        slots: int = 24,
        former_roots: Roots | None = None,
        source: Source = Source.TOLD,
    ) -> None:
        self.roots = roots
        polled = source == Source.POLLED
        self._contains = Roots(map(site_of, roots.prefixes)).contains if polled else roots.contains
        self._other = source != Source.TOLD
        self._hint = bool(source & HINTS)
        self._may_delete = bool(source & SITE)
        self._any_type = polled
        self.urlprefix = urlprefix
        self.blanked_subtypes = 0
        self._mimetypes = mimetypes
        self._slots = slots
        self._former = former_roots or Roots(())
        self._provider_mask = parse_hours(provider_hours, slots)
        self._accepted: dict[str, str] = {}
        self._hours_met: dict[str, None] = {}
        if urlprefix:
            try:
                if len(urlprefix) > URL_CHARS:
                    raise UrlError("too-long")
                if not roots.admits_scheme(normalise_prefix(urlprefix)):
                    raise UrlError("bad-scheme")
            except UrlError as error:
                raise SetError("bad-prefix", error.text) from None

    def accepts(self, mimetypes: Iterable[str]) -> bool:
        """Whether all these mime types, as they were sent, are taken."""
        try:
            for text in mimetypes:
                if text not in self._accepted:
                    self._mimetype(text)
        except UrlError:
            return False
        return True

    def check(self, attributes: dict[str, str]) -> UrlNotice | None:
        """The notice that this element says; None: it asked to be dropped where it is outside the roots (it counts
        as valid).

        :raises ElementError: it is refused.
        """
        try:
            return self._check(attributes)
        except UrlError as error:
            url, named = self._explain(attributes)
            raise ElementError(error.entry.name, error.detail, url, named) from None

    def _check(self, attributes: dict[str, str]) -> UrlNotice | None:
        told = attributes
        sent = as_sent(attributes)
        if len(sent) > TEXT_CHARS:
            _check_lengths(attributes)
        if not _LONG.isdisjoint(attributes):
            told = _merge(attributes)
        get = told.get
        curl_text = get("c")
        if not curl_text:
            raise UrlError("curl-missing")
        curl = self._url(curl_text)
        furl_text = get("f")
        delete = furl_text == ""
        burl = subtype = hours = ""
        ifabsent = self._hint
        drop_outside = recheck = retract = False
        rare = not _RARE.isdisjoint(told)
        if rare:
            operation = get("op")
            if self._other and operation in ("recheck", "retract"):
                recheck, retract, delete = operation == "recheck", operation == "retract", False
            else:
                delete = _choice(told, "op", "bad-op", "delete", "update") or delete
            not_browsable = _choice(told, "browse", "bad-flag", "no", "yes")
            ifabsent = _choice(told, "ifabsent", "bad-flag", "yes", "no") or self._hint
            drop_outside = _choice(told, "outside", "bad-flag", "drop")
        if delete and not self._may_delete:
            raise UrlError("bad-op", "only the site's own word deletes")
        if delete or retract:
            return self._deletion(curl, get("m", ""), drop_outside, sent, retract)
        furl = self._url(furl_text) if furl_text else ""
        if rare:
            burl = NOT_BROWSABLE if not_browsable else self._browse_url(get("b", ""), curl)
        if furl == curl:
            furl = ""
        inside = self._contains
        if not inside(curl) or (furl and not inside(furl)):
            if drop_outside:
                return None
            raise UrlError("outside-roots")
        mime_text = get("m", "")
        mimetype = self._accepted.get(mime_text) or self._mimetype(mime_text)
        md5 = get("md5", "")
        if md5:
            if not _MD5(md5):
                raise UrlError("bad-md5", md5[:80])
            md5 = md5.lower()
        length = get("len")
        try:
            length_bytes = parse_number(length, _LENGTH_MAX_BYTES) if length else None
        except ValueError:
            raise UrlError("bad-len", str(length)[:80]) from None
        mtime = get("mtime")
        seconds = _read_mtime(mtime) if mtime else None
        if rare:
            hours = get("hours", "")
            if hours and hours not in self._hours_met:
                self._check_hours(hours)
            subtype = get("s", "")
            if subtype and not _SUBTYPE(subtype):
                subtype = ""
                self.blanked_subtypes += 1
        return UrlNotice(
            curl,
            furl,
            burl,
            mimetype,
            subtype,
            md5,
            length_bytes,
            seconds,
            hours,
            False,
            ifabsent and not recheck,
            False,
            sent,
            False,
            recheck,
        )

    def _deletion(self, curl: str, mime_text: str, drop_outside: bool, sent: str, retract: bool) -> UrlNotice | None:
        if not self._contains(curl) and not self._former.contains(curl):
            if drop_outside:
                return None
            raise UrlError("outside-roots")
        mimetype = self._type_of(mime_text) if mime_text else ""
        return UrlNotice(curl, mimetype=mimetype, delete=not retract, sent=sent, retract=retract)

    def _type_of(self, text: str) -> str:
        return ANY if text == ANY and self._other else normalise_mimetype(text)

    def _url(self, text: str) -> str:
        url = normalise(resolve(self.urlprefix, text))
        if len(url) > URL_CHARS:
            raise UrlError("too-long", f"a URL of more than {URL_CHARS} characters")
        if not self.roots.admits_scheme(url):
            # Also of a browse URL: people click on those, and javascript:// is one.
            raise UrlError("bad-scheme", scheme_of(url)[:40])
        return url

    def _browse_url(self, text: str, curl: str) -> str:
        burl = self._url(text) if text else ""
        return "" if burl == curl else burl

    def _mimetype(self, text: str) -> str:
        if not text and not self._other:
            raise UrlError("mimetype-missing")
        mimetype = self._type_of(text or ANY)
        if mimetype != ANY and not self._any_type and not self._mimetypes.accepts(mimetype):
            raise UrlError("mimetype-not-accepted", mimetype)
        if len(self._accepted) >= _CACHED:
            self._accepted.clear()
        self._accepted[text] = mimetype
        return mimetype

    def _check_hours(self, text: str) -> None:
        try:
            mask = parse_hours(text, self._slots)
        except ValueError as error:
            raise UrlError("bad-hours", str(error)) from None
        if not mask & self._provider_mask:
            raise UrlError("hours-never")
        if len(self._hours_met) >= _CACHED:
            self._hours_met.clear()
        self._hours_met[text] = None

    def _explain(self, attributes: dict[str, str]) -> tuple[str, UrlNotice | None]:
        """What of a refused element can be understood: the fetch URL, and what was named."""
        get = attributes.get
        fetch_text = get("furl") or get("f") or get("curl") or get("c") or ""
        url = resolve(self.urlprefix, fetch_text)[:URL_CHARS] if fetch_text else ""
        try:
            url = normalise(url)[:URL_CHARS]
        except UrlError:
            pass  # the error container shows it as it is
        name = get("curl") or get("c")
        if not name:
            return url, None
        try:
            curl = self._url(name)
        except UrlError:
            return url, None
        try:
            mimetype = normalise_mimetype(_merge({k: attributes[k] for k in _MIMES if k in attributes}).get("m", ""))
        except UrlError:
            mimetype = ""  # any view of it may be meant
        return url, UrlNotice(curl, mimetype=mimetype, named_only=True)


def as_sent(attributes: dict[str, str]) -> str:
    """:attr:`lcc.model.UrlNotice.sent` of these: compact JSON ``[name, value, …]``, in the order of the document."""
    joined = '","'.join(chain.from_iterable(attributes.items()))
    if joined.count('"') == 4 * len(attributes) - 2 and "\\" not in joined and joined.isprintable():
        return f'["{joined}"]'
    return _encode([text for pair in attributes.items() for text in pair])


def _check_lengths(attributes: dict[str, str]) -> None:
    for name, value in attributes.items():
        limit = URL_CHARS if name in _URLS else TEXT_CHARS
        if len(value) > limit and (name in _URLS or name in _TEXTS):
            raise UrlError("too-long", f"{name}: more than {limit} characters")


def _merge(attributes: dict[str, str]) -> dict[str, str]:
    """The same with short names only.

    :raises UrlError: "conflict".
    """
    told = dict(attributes)
    for long, short in _PAIRS:
        value = told.pop(long, None)
        if value is not None and told.setdefault(short, value) != value:
            raise UrlError("conflict", f"{long} and {short}")
    return told


def _choice(told: dict[str, str], name: str, error: str, marked: str, usual: str = "") -> bool:
    """Whether the attribute has its marked value; it may be absent.

    :raises UrlError: it has neither this nor the usual value.
    """
    value = told.get(name)
    if value is None or (usual and value == usual):
        return False
    if value != marked:
        raise UrlError(error, f"{name}={value[:80]!r}")
    return True


def _read_mtime(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise UrlError("bad-mtime", text[:80]) from None
