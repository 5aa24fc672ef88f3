"""The bounded XML feed: bytes in, elements out, however the bytes are cut.

Every wire of the LCC is read by this one class.  It knows nothing of sockets or time.

A conversation may be a *sequence* of documents on one connection (seed 002, section 13); prefixes declared on the
root of an earlier document stay known to the later ones.  After a document's end the feed waits until
:meth:`XmlFeed.next_document` is called: bytes that arrive before that are held, and ``waiting`` is true so that
the transport can be paused.

How a document's end is found: one expat parser reads one document and simply reads on behind its end; at the first
thing that cannot stand there (the next root, or its XML declaration) expat reports where that is, and a new parser
goes on from that byte.

Fast path: where many elements of one spelling follow each other directly below the root, the feed reads them without
expat (:mod:`lcc.protocols.fast_elements`), if it was told their spelling; everything else goes to expat, in the same
order.  Expat never sees those elements, but for as many line ends as they had.

Bounds: bytes a document, bytes a token (what is held back until its ``>``), depth, attributes an element, length
of a value, length of a text, and distinct names (expat keeps each name that it ever saw); and, as a multiple of the
bytes that came, what expat has to read again because a token comes in many pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.parsers import expat

import attrs
from zope.interface import implementer

from lcc.errors import StreamError
from lcc.interfaces import IFeed
from lcc.protocols.fast_elements import Row, Spelling

NAMESPACE = "http://www.lococa.org/1.0"

_is_empty_tag = re.compile(rb"<[^<>\"']*+(?:(?:\"[^<\"]*+\"|'[^<']*+')[^<>\"']*+)*+(?<=/)>").fullmatch

_MISPLACED = expat.errors.codes[expat.errors.XML_ERROR_MISPLACED_XML_PI]
# Found behind a root, these say that another document begins: its root, or its XML declaration.
_NEXT_DOCUMENT = (expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT], _MISPLACED)
_WHITE = b" \t\r\n"
# Expat begins an incomplete token anew with each piece of it.  That happens where a ">" stands inside of a value or
# comment, and costs an honest peer next to nothing; a peer that sends such a token byte by byte is not worth it.
_READ_AGAIN_PER_BYTE = 64
_READ_AGAIN_BYTES = 16384
_BOM = b"\xef\xbb\xbf"
# Between two tries of the fast path expat gets this many bytes; twice as many each time that the try came to little.
_STRETCH_BYTES = 128
_STRETCH_BYTES_MAX = 65536
_FEW = 2


@attrs.frozen
class FeedLimits:
    """Bounds of a feed; each is exceeded only by a peer that is broken or hostile.

    :ivar document_bytes: the longest document; None: without limit (a long-lived stream, or a set).
    :ivar token_bytes: the longest single tag or piece of text.
    :ivar depth: the deepest nesting; the root is at depth 1.
    :ivar attribute_count: attributes of one element.
    :ivar value_chars: characters of one attribute value.
    :ivar text_chars: characters of one text.
    :ivar name_count: distinct element and attribute names in one document.
    :ivar name_chars: characters of one name.
    :ivar prolog_bytes: comments and the like before a document's root.
    """

    document_bytes: int | None = None
    token_bytes: int = 16384
    depth: int = 8
    attribute_count: int = 64
    value_chars: int = 8192
    text_chars: int = 8192
    name_count: int = 512
    name_chars: int = 256
    prolog_bytes: int = 65536


class Start(NamedTuple):
    """A start tag.  ``name`` is the local name if it is in the LCC namespace or in none, else ``{uri}local``."""

    name: str
    attributes: dict[str, str]
    depth: int


class End(NamedTuple):
    """An end tag; depth 1 ends the document.  ``text`` is the character data since the last tag."""

    name: str
    text: str
    depth: int


class FastElements(NamedTuple):
    """Consecutive elements of one spelling, directly below the root, in place of their tags: only from a feed that
    was told of spellings."""

    spelling: Spelling
    rows: list[Row]
    depth: int


Event = Start | End


@implementer(IFeed)
class XmlFeed:
    """Turns bytes into :class:`Start` and :class:`End` events; and into :class:`FastElements`, if it was told of
    spellings.

    Use: :meth:`receive` with each piece of bytes; when ``waiting`` is true the document has ended, and
    :meth:`next_document` goes on with the next one.  Events that were complete before an error are returned by the
    call before it or by :attr:`salvaged`.

    :param limits: may be replaced (``feed.limits = …``) between two documents.
    :param prefixes: namespace prefixes that are known without a declaration ('' for the default namespace): a
        content provider reads replies that reuse the prefix of its own ``<init>``.
    """

    def __init__(self, limits: FeedLimits | None = None, prefixes: dict[str, str] | None = None) -> None:
        self.limits = limits or FeedLimits()
        self.salvaged: list[Event] = []
        """After a StreamError: the events of that same call that came before the fault."""
        self.root_prefix = ""
        """The prefix on the current document's root ('' for a default namespace), for replies."""
        self.root_namespace = ""
        """The namespace of the current document's root ('' for none)."""
        self.spellings: Sequence[Spelling] = ()
        """What to look for; until the end of the document.  Their names are counted only where expat sees them."""
        self._sticky: dict[str, str] = dict(prefixes or {})
        self._held = bytearray()
        self._first = True
        self._new_parser()

    def _new_parser(self) -> None:
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = self._cdata_begins
        parser.EndCdataSectionHandler = self._cdata_ends
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)
        self._parser = parser
        self._events: list[Any] = []
        self._fault: StreamError | None = None
        self._scopes: list[dict[str, str] | None] = []
        self._prefixes = dict(self._sticky)
        self._names: dict[str, str] = {}
        self._known: set[str] = set()
        self._unprefixed: set[str] = set()
        self._texts: list[str] = []
        self._text_chars = 0
        self._depth = 0
        self._declared = False
        self._begun = False
        self._in_cdata = False
        self._ended = False
        self._kept = 0
        self._fed = 0
        self._skipped = 0
        self._skipped_lines = 0
        self._skipped_in_line = 0
        self._skipped_columns = 0
        self._stretch = _STRETCH_BYTES
        self._read_again = 0
        self._outside = bytearray()
        self._outside_base = 0
        self._end_offset = 0
        self._root_begins_at = self._root_ends_at = 0

    @property
    def waiting(self) -> bool:
        """True from a document's end until :meth:`next_document`: the transport should be paused."""
        return self._ended

    @property
    def held_bytes(self) -> int:
        """How many bytes are kept for later."""
        return len(self._held)

    @property
    def inside_document(self) -> bool:
        """True between the root's start tag and its end tag."""
        return self._begun and not self._ended

    @property
    def unfinished(self) -> bool:
        """True when some of a document has arrived, but not all of it."""
        return not self._ended and (self._begun or bool(self._held.strip()))

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes; give the events that they complete, up to the document's end.

        :raises StreamError: when the bytes cannot be accepted.  The feed is of no use afterwards.
        """
        if self._ended:
            self._held += data
            return []
        # Feed only up to the last '>': a token cut into many pieces would cost expat quadratic time.
        cut = data.rfind(b">") + 1
        if not cut:
            self._held += data
            self._check_held()
            return []
        if self._held:
            piece = bytes(self._held) + data[:cut]
            self._held.clear()
        else:
            piece = data[:cut]
        self._held += data[cut:]
        events = self._parse(piece)
        if not self._ended:
            try:
                self._check_held()
            except StreamError:
                self.salvaged = events
                raise
        return events

    def next_document(self) -> list[Event]:
        """Go on with the next document; gives what of it has already arrived."""
        if not self._ended:
            return []
        held = bytes(self._held)
        self._held.clear()
        outside, base = bytes(self._outside), self._outside_base
        index = self._end_offset - base
        rest = outside[index:] + held
        self._first = False
        self.spellings = ()
        self._new_parser()
        return self.receive(rest) if rest else []

    def _check_held(self) -> None:
        if len(self._held) > self.limits.token_bytes:
            raise StreamError("limit", f"a tag or text of more than {self.limits.token_bytes} bytes")
        if not self._begun:
            self._check_encoding(self._held)

    def _check_encoding(self, data: bytes | bytearray) -> None:
        head = data[:4]
        if b"\x00" in head or b"\xff" in head or b"\xfe" in head:
            raise StreamError("encoding", "the stream begins with bytes that are not UTF-8")

    def _parse(self, piece: bytes) -> list[Event]:
        if self.spellings and self._begun:
            self._parse_by_turns(piece)
        else:
            self._parse_with_expat(piece)
        limit = self.limits.document_bytes
        if limit is not None and self._fed + self._skipped > limit and not self._ended:
            raise self._failure(StreamError("limit", f"a message of more than {limit} bytes"))
        events, self._events = self._events, []
        return events

    def _parse_with_expat(self, piece: bytes) -> None:
        while True:
            if not self._fed:
                piece = piece.lstrip(_WHITE)
                if piece.startswith(_BOM):
                    if not self._first:
                        raise StreamError("syntax", "a byte order mark in the middle")
                    piece = piece[3:]
                if not piece:
                    return
                self._check_encoding(piece)
            restart = self._parse_with_current(piece)
            if restart is None:
                return
            piece = restart
            self._new_parser()

    def _parse_by_turns(self, piece: bytes) -> None:
        """Fast-path elements where they are, and in between a stretch for expat."""
        text = piece.decode("latin-1")  # a character for each byte
        at, size = 0, len(piece)
        while True:
            if self._depth == 1 and not self._kept and not self._in_cdata:
                at = self._read_fast(text, at)
            if at == size:
                return
            end = piece.find(b">", at + self._stretch) + 1 or size
            self._stretch = min(2 * self._stretch + _STRETCH_BYTES, _STRETCH_BYTES_MAX)
            self._parse_with_current(piece[at:end])
            if self._ended:
                self._outside += piece[end:]
                return
            at = end
            if at == size:
                return

    def _read_fast(self, text: str, at: int) -> int:
        """Read fast-path elements, if there are any; gives where they end.

        Only where the next thing that expat would see is content of the root: it has nothing in hand, and the tag is
        known to have no namespace but ours.
        """
        for spelling in self.spellings:
            if self._names.get(spelling.tag) != spelling.tag:
                continue
            rows, end = spelling.read(text, at)
            if rows:
                self._skip(text[at:end])
                self._events.append(FastElements(spelling, rows, 2))
                if len(rows) >= _FEW:
                    self._stretch = 0
                return end
        return at

    def _skip(self, elements: str) -> None:
        """Let expat stand where it would if it had read these elements: in the same line and column."""
        line = max(elements.rfind("\n"), elements.rfind("\r")) + 1
        if line:
            lines = elements.count("\n") + elements.count("\r") - elements.count("\r\n")
            in_their_place = "\n" + " " * (len(elements) - line)
            self._skipped += len(elements) - len(in_their_place)
            self._skipped_lines += lines - 1
            self._parse_with_current(in_their_place.encode())
        else:
            self._skipped += len(elements)
            here = self._parser.CurrentLineNumber
            if here != self._skipped_in_line:
                self._skipped_in_line, self._skipped_columns = here, 0
            self._skipped_columns += len(elements)
        if self._texts:
            self._texts.clear()  # their tags would have ended the text before them
            self._text_chars = 0

    def _parse_with_current(self, piece: bytes) -> bytes | None:
        """Feed one piece.  Gives None, or the bytes that a new parser must begin with."""
        keep = not self._begun
        if keep:
            self._outside += piece
        fed_before = self._fed
        self._fed += len(piece)
        try:
            self._parser.Parse(piece, False)
        except expat.ExpatError as error:
            index = self._parser.ErrorByteIndex
            if self._fault is None and self._ended:
                # The next document begins at index.  At any other error the index lies inside of what is wrong: the
                # next parser begins behind the root, and says the same of it as if it had come later.
                if error.code not in _NEXT_DOCUMENT:
                    index = self._root_end(piece, fed_before)
                self._keep_rest(piece, fed_before, index)
                return None
            if self._fault is None and error.code == _MISPLACED and not (self._begun or self._declared) and index > 0:
                # White space or a comment stood before the XML declaration.
                return bytes(self._outside[index:])
            raise self._failure(self._fault or self._syntax_error(error)) from None
        except StreamError as error:
            raise self._failure(error) from None
        if self._fault is not None:
            raise self._failure(self._fault)
        if self._ended:
            # Less than all where a comment behind the root is still incomplete.
            self._keep_rest(piece, fed_before, self._parser.CurrentByteIndex)
            return None
        if self._begun:
            if keep:
                self._outside.clear()
        elif len(self._outside) > self.limits.prolog_bytes:
            raise StreamError("limit", "too much before the root element")
        # What expat keeps of an incomplete token that has a '>' in it, such as a comment.
        kept = self._kept = self._fed - self._parser.CurrentByteIndex
        if kept:
            if kept > self.limits.token_bytes:
                text = f"a tag or text of more than {self.limits.token_bytes} bytes"
                raise self._failure(StreamError("limit", text))
            self._read_again += kept
            if self._read_again > _READ_AGAIN_PER_BYTE * self._fed + _READ_AGAIN_BYTES:
                raise self._failure(StreamError("limit", "a tag in too many pieces"))
        return None

    def _keep_rest(self, piece: bytes, base: int, index: int) -> None:
        self._outside = bytearray(piece)
        self._outside_base = base
        self._end_offset = index

    def _root_end(self, piece: bytes, base: int) -> int:
        """Where the root ends, in this piece."""
        start, at = self._root_begins_at - base, self._root_ends_at - base
        if start >= 0 and _is_empty_tag(piece[start:at]):
            return base + at  # of <root/> expat names the place behind it, of </root> the place before
        return base + piece.index(b">", at) + 1

    def _syntax_error(self, error: expat.ExpatError) -> StreamError:
        line, column = error.lineno + self._skipped_lines, error.offset
        if error.lineno == self._skipped_in_line:
            column += self._skipped_columns
        return StreamError("syntax", f"line {line}, column {column}: {expat.ErrorString(error.code)}")

    def _failure(self, error: StreamError) -> StreamError:
        self.salvaged, self._events = self._events, []
        return error

    # Handlers only collect: an exception in one would kill the parser mid-chunk.  The document type is the one
    # exception: nothing behind it may be expanded.

    def _doctype(self, *_: object) -> None:
        raise StreamError("encoding", "a document type declaration is not accepted")

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._declared = True
        if encoding is not None and encoding.upper() not in ("UTF-8", "US-ASCII"):
            self._set_fault(StreamError("encoding", f"the declared encoding is {encoding[:40]!r}"))

    def _set_fault(self, fault: StreamError) -> None:
        if self._fault is None:
            self._fault = fault

    def _start(self, raw: str, attributes: dict[str, str]) -> None:
        if self._fault is not None:
            return
        self._depth = depth = self._depth + 1
        limits = self.limits
        if depth > limits.depth:
            self._set_fault(StreamError("limit", f"elements nested more than {limits.depth} deep"))
            return
        if attributes:
            if len(attributes) > limits.attribute_count:
                where = f"more than {limits.attribute_count} attributes in <{raw[:80]}>"
                self._set_fault(StreamError("limit", where))
                return
            for value in attributes.values():
                if len(value) > limits.value_chars:
                    where = f"an attribute of more than {limits.value_chars} characters in <{raw[:80]}>"
                    self._set_fault(StreamError("limit", where))
                    return
        if self._texts:
            self._texts.clear()
            self._text_chars = 0
        declared: dict[str, str] | None = None
        if not attributes.keys() <= self._unprefixed and self._meet(attributes):
            declared = self._declare(attributes)
            attributes = {key: value for key, value in attributes.items() if not _is_declaration(key)}
        self._scopes.append(declared)
        if depth == 1:
            self._begun = True
            self._root_begins_at = self._parser.CurrentByteIndex
            self.root_prefix = raw.partition(":")[0] if ":" in raw else ""
            self.root_namespace = self._prefixes.get(self.root_prefix, "")
            self._sticky = dict(self._prefixes)
        name = self._names.get(raw) or self._resolve(raw)
        if self._fault is None:
            self._events.append(Start(name, attributes, depth))

    def _end(self, raw: str) -> None:
        if self._fault is not None:
            return
        text = ""
        if self._texts:
            text = "".join(self._texts)
            self._texts.clear()
            self._text_chars = 0
        depth = self._depth
        self._events.append(End(self._names.get(raw) or self._resolve(raw), text, depth))
        self._depth = depth - 1
        declared = self._scopes.pop()
        if declared is not None:
            self._prefixes = declared
            self._names.clear()
        if depth == 1:
            self._ended = True
            self._root_ends_at = self._parser.CurrentByteIndex

    def _text(self, data: str) -> None:
        if self._fault is not None or not self._depth:
            return
        self._text_chars += len(data)
        if self._text_chars > self.limits.text_chars:
            if data.isspace():
                # White space between elements is nobody's text.
                self._text_chars -= len(data)
                return
            self._set_fault(StreamError("limit", f"a text of more than {self.limits.text_chars} characters"))
            return
        self._texts.append(data)

    def _cdata_begins(self) -> None:
        self._in_cdata = True

    def _cdata_ends(self) -> None:
        self._in_cdata = False

    def _meet(self, attributes: dict[str, str]) -> bool:
        """Note names that are new; tells whether namespace declarations are among them."""
        self._known.update(attributes)
        self._check_names(max(map(len, attributes)))
        declarations = {name for name in attributes if _is_declaration(name)}
        self._unprefixed.update(attributes.keys() - declarations)
        return bool(declarations)

    def _check_names(self, longest: int) -> None:
        if longest > self.limits.name_chars:
            self._set_fault(StreamError("limit", f"a name of more than {self.limits.name_chars} characters"))
        if len(self._known) > self.limits.name_count:
            self._set_fault(StreamError("limit", f"more than {self.limits.name_count} different names"))

    def _declare(self, attributes: dict[str, str]) -> dict[str, str]:
        """Enter a scope with new prefixes; gives the prefixes to go back to."""
        outer = self._prefixes
        inner = dict(outer)
        for key, value in attributes.items():
            if key == "xmlns":
                inner[""] = value
            elif key.startswith("xmlns:"):
                inner[key[6:]] = value
        if len(inner) > self.limits.attribute_count:
            self._set_fault(StreamError("limit", "too many namespace prefixes"))
        self._prefixes = inner
        self._names.clear()
        return outer

    def _resolve(self, raw: str) -> str:
        prefix, colon, local = raw.partition(":")
        if not colon:
            prefix, local = "", raw
        uri = self._prefixes.get(prefix)
        if uri is None and prefix == "xml":
            uri = "http://www.w3.org/XML/1998/namespace"
        if uri is None:
            if prefix:
                self._set_fault(StreamError("syntax", f"the prefix of <{raw[:80]}> is not declared"))
            uri = ""
        name = local if uri in ("", NAMESPACE) else f"{{{uri}}}{local}"
        self._known.add(raw)
        self._check_names(len(raw))
        self._names[raw] = name
        return name


def _is_declaration(name: str) -> bool:
    return name == "xmlns" or name.startswith("xmlns:")
