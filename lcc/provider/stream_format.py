"""What flows between ``file2url``, ``lcccpstate`` and ``lcccp``: ``<url …/>`` containers, and marks around them.

The stream is a plain sequence of ``<url>`` containers, as the seeds have it, so that a person or a script can write
one by hand.  The tools put marks around theirs, as XML processing instructions, one element or mark a line::

    <?lcc-stream version="1" tool="lcccpstate" set="partial" statefile="/var/lib/site.state" token="5f0c…"?>
    <url c="index.html" m="text/html" md5="…" len="1234" mtime="1700000000"/>
    <url c="gone.html" m="text/html" op="delete"/>
    <?lcc-end count="2" added="1" changed="0" deleted="1"?>

The end mark says that the writer came to its end, and how many elements it wrote.  Without it nobody can tell a
small site from a tool that died: the readers then send nothing.  Sections may follow each other (two sites in one
stream); each needs its own end mark, and nothing may stand behind the last one.  A hand-made stream without marks is
taken when its user says so (``--no-end-mark``); one whose marks tell that it was cut off is never taken.

Values in marks hold no character that XML would escape; the state file's path and the urlprefix are percent-encoded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote_from_bytes, unquote_to_bytes
from xml.parsers import expat

import attrs

from lcc.commands.errors import Trouble
from lcc.numbers import INT64_MAX, parse_number
from lcc.protocols.xmltext import attributes as write_attributes

VERSION = "1"
READ_BYTES = 65_536
_ROOT = "lcc-url-sequence"
_WHITE = b" \t\r\n"
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]*\?>")
_PAIR = re.compile(r'([\w-]+)="([^"]*)"')

LONG_NAMES = {"curl": "c", "furl": "f", "burl": "b", "mimetype": "m", "subtype": "s"}
"""The attributes that have two spellings, long -> short."""


class StreamFault(Trouble):
    """The stream cannot be used; nothing of it may be sent.  The text says where and why."""

    usually = "write the containers with file2url, or compare your own with the provider's guide"


class StreamCut(StreamFault):
    """The stream is well-formed, but incomplete: the tool that wrote it died, or it bears no end mark."""

    usually = "check the messages of the program before this one, fix that, and run the pipeline again"


@attrs.frozen
class Header:
    """The mark at the beginning of a section.

    :ivar tool: who wrote it.
    :ivar full: the section is the whole site and to be sent as a full set.
    :ivar statefile: the state file that an accepted submission brings up to date; None: there is none.
    :ivar token: names the pending state that belongs to this stream.
    :ivar urlprefix: what ``lcccpstate`` has taken relative names to stand behind; '': it did not know.
    """

    tool: str
    full: bool = False
    statefile: Path | None = None
    token: str = ""
    urlprefix: str = ""

    def line(self) -> str:
        """The mark as it stands in the stream."""
        pairs = {"version": VERSION, "tool": self.tool}
        if self.tool == "lcccpstate":
            pairs["set"] = "full" if self.full else "partial"
        if self.statefile is not None:
            pairs["statefile"] = quote_from_bytes(os.fsencode(self.statefile), "/")
            pairs["token"] = self.token
        if self.urlprefix:
            pairs["urlprefix"] = quote_from_bytes(self.urlprefix.encode(errors="surrogatepass"), "/:")
        return _mark("lcc-stream", pairs)


@attrs.frozen
class EndMark:
    """The mark at the end of a section.

    :ivar count: elements in the section.
    :ivar added, changed, deleted: what they are, where the writer knows; None: it does not.
    :ivar retold, resolved, waiting: see :class:`lcc.provider.site_diff.Difference`.
    """

    count: int
    added: int | None = None
    changed: int | None = None
    deleted: int | None = None
    retold: int = 0
    resolved: int = 0
    waiting: int = 0

    def line(self) -> str:
        """The mark as it stands in the stream."""
        pairs = {"count": str(self.count)}
        for name in ("added", "changed", "deleted"):
            number = getattr(self, name)
            if number is not None:
                pairs[name] = str(number)
        pairs |= {name: str(getattr(self, name)) for name in ("retold", "resolved", "waiting") if getattr(self, name)}
        return _mark("lcc-end", pairs)


def _mark(target: str, pairs: Mapping[str, str]) -> str:
    return f"<?{target}{''.join([f' {name}={chr(34)}{value}{chr(34)}' for name, value in pairs.items()])}?>\n"


def url_line(attributes: dict[str, str]) -> str:
    """One element as it stands in the stream."""
    return f"<url{write_attributes(attributes)}/>\n"


def named(attributes: Mapping[str, str], short: str) -> str:
    """The value of an attribute in either spelling; '' where it is absent."""
    value = attributes.get(short)
    if value is None:
        for long_name, short_name in LONG_NAMES.items():
            if short_name == short:
                return attributes.get(long_name, "")
        return ""
    return value


def is_deletion(attributes: Mapping[str, str]) -> bool:
    """True for ``op="delete"`` and for an empty fetch URL."""
    if attributes.get("op") == "delete":
        return True
    return attributes.get("f") == "" or attributes.get("furl") == ""


class StreamReader:
    """Reads a stream in pieces; memory stays bounded by the longest element.

    :param require_end: a stream must be closed by an end mark.
    :param token_bytes: the longest single tag.
    """

    def __init__(self, require_end: bool = True, token_bytes: int = 65_536) -> None:
        self.headers: list[Header] = []
        self.ends: list[EndMark] = []
        self._require_end = require_end
        self._token_bytes = token_bytes
        self._since_end = 0
        self._open = False
        self._begun = False
        self._held = bytearray()
        self._elements: list[dict[str, str]] = []
        self._depth = 0
        parser = expat.ParserCreate("UTF-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.ProcessingInstructionHandler = self._mark
        if hasattr(parser, "SetReparseDeferralEnabled"):
            parser.SetReparseDeferralEnabled(False)
        self._parser = parser
        parser.Parse(f'<{_ROOT} xmlns:lococa="">'.encode(), False)

    def receive(self, data: bytes) -> list[dict[str, str]]:
        """Take bytes; give the attributes of the elements that they complete, as they were written.

        :raises StreamFault: this is no stream of ``<url>`` containers.
        """
        cut = data.rfind(b">") + 1
        if not cut:
            self._held += data
        else:
            piece = bytes(self._held) + data[:cut]
            self._held[:] = data[cut:]
            self._parse(piece)
        if len(self._held) > self._token_bytes:
            if not self._held.isspace():
                raise StreamFault(
                    f"{self._where()}: more than {self._token_bytes} bytes without a <url …/> container"
                )
            self._held.clear()
        elements, self._elements = self._elements, []
        return elements

    def finish(self) -> None:
        """The stream has ended.

        :raises StreamCut: but not as a complete one does.
        """
        if self._held.strip(_WHITE):
            text = bytes(self._held).strip(_WHITE)[:60].decode("utf-8", "replace")
            if not text.startswith("<"):
                raise StreamFault(f"{self._where()}: {text!r} is not a <url …/> container")
            raise StreamCut(f"the input ends in the middle of a container: {text!r}")
        if self._depth != 1:
            raise StreamCut("the input ends inside an element")
        if self._open:
            raise StreamCut("the input has no end mark: the program that wrote it failed or was interrupted")
        if self._require_end and (self._since_end or not self.ends):
            raise StreamCut(
                "the input has no end mark (did the program before this one fail?)",
                f"{StreamCut.usually}; for a hand-made stream use --no-end-mark",
            )

    def _where(self) -> str:
        return f"line {self._parser.CurrentLineNumber}"

    def _parse(self, piece: bytes) -> None:
        if not self._begun:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
            declaration = _DECLARATION.match(piece)
            if declaration:
                piece = b"\n" * declaration.group().count(b"\n") + piece[declaration.end() :]
            self._begun = True
        try:
            self._parser.Parse(piece, False)
        except expat.ExpatError as error:
            raise StreamFault(f"line {error.lineno}: not well-formed: {expat.ErrorString(error.code)}") from None

    # A fault raised in a handler ends the parser, and with it this reader.

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            return
        if self._depth > 2:
            if self._depth > 16:
                raise StreamFault(f"{self._where()}: elements nested too deep")
            return
        if name not in ("url", "lococa:url"):
            raise StreamFault(f"{self._where()}: <{name[:60]}> where a <url …/> container is expected")
        for key in attributes:
            if ":" in key or key == "xmlns":
                attributes = {key: value for key, value in attributes.items() if ":" not in key and key != "xmlns"}
                break
        self._since_end += 1
        self._elements.append(attributes)

    def _end(self, _name: str) -> None:
        self._depth -= 1
        if not self._depth:
            raise StreamFault(f"{self._where()}: an end tag without a start tag")

    def _text(self, data: str) -> None:
        if self._depth == 1 and not data.isspace():
            # The parser tells of a text when it has reached the end of it.
            line = self._parser.CurrentLineNumber - data.lstrip().count("\n")
            raise StreamFault(f"line {line}: {data.split()[0][:60]!r} is not a <url …/> container")

    def _mark(self, target: str, data: str) -> None:
        pairs = dict(_PAIR.findall(data))
        if target == "lcc-stream":
            self._header(pairs)
        elif target == "lcc-end":
            self._end_mark(pairs)

    def _header(self, pairs: dict[str, str]) -> None:
        if self._open:
            raise StreamCut(f"{self._where()}: another stream begins before the end mark of the one before it")
        if self._since_end and self._require_end:
            raise StreamCut(f"{self._where()}: a stream begins after elements without an end mark")
        if pairs.get("version") != VERSION:
            raise StreamFault(f"{self._where()}: a stream of version {pairs.get('version')!r}; this is {VERSION}")
        path = pairs.get("statefile")
        statefile = None if path is None else Path(os.fsdecode(unquote_to_bytes(path)))
        token = pairs.get("token", "")
        urlprefix = unquote_to_bytes(pairs.get("urlprefix", "")).decode(errors="replace")
        self.headers.append(Header(pairs.get("tool", ""), pairs.get("set") == "full", statefile, token, urlprefix))
        self._open = True
        self._since_end = 0

    def _end_mark(self, pairs: dict[str, str]) -> None:
        count = self._number(pairs, "count")
        if count != self._since_end:
            raise StreamCut(f"{self._where()}: the end mark counts {count} containers, but {self._since_end} came")
        added, changed, deleted = (
            self._number(pairs, name) if name in pairs else None for name in ("added", "changed", "deleted")
        )
        others = [self._number(pairs, name) if name in pairs else 0 for name in ("retold", "resolved", "waiting")]
        self.ends.append(EndMark(self._since_end, added, changed, deleted, *others))
        self._open = False
        self._since_end = 0

    def _number(self, pairs: dict[str, str], name: str) -> int:
        text = pairs.get(name, "")
        try:
            return parse_number(text, INT64_MAX)
        except ValueError:
            raise StreamFault(f"{self._where()}: an end mark with {name}={text!r:.80}") from None


def read_elements(source: IO[bytes], reader: StreamReader) -> Iterator[dict[str, str]]:
    """All elements of a file or pipe.  Whoever exhausts this iterator knows that the stream is complete.

    :raises StreamFault: see :class:`StreamReader`.
    """
    read = getattr(source, "read1", source.read)
    while data := read(READ_BYTES):
        yield from reader.receive(data)
    reader.finish()


class StreamWriter:
    """Writes one section: header, elements, end mark.  What was not closed bears no end mark."""

    def __init__(self, sink: IO[bytes], header: Header) -> None:
        self._sink = sink
        self._lines = [header.line()]
        self.count = 0

    def write(self, attributes: dict[str, str]) -> None:
        """Write one element."""
        self.count += 1
        self._lines.append(url_line(attributes))
        if len(self._lines) >= 256:
            self.flush()

    def flush(self) -> None:
        """Hand on what was written so far."""
        self._sink.write("".join(self._lines).encode())
        self._lines.clear()
        self._sink.flush()

    def close(
        self,
        added: int | None = None,
        changed: int | None = None,
        deleted: int | None = None,
        retold: int = 0,
        resolved: int = 0,
        waiting: int = 0,
    ) -> None:
        """Write the end mark: everything is there."""
        self._lines.append(EndMark(self.count, added, changed, deleted, retold, resolved, waiting).line())
        self.flush()
