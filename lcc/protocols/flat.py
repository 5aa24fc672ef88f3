"""Flat messages: an element without content whose attributes are the fields of a frozen class.

The vocabulary of every internal wire is made of these.  A class is declared once, with attrs; this module derives
the writer and the reader from its fields:

* ``int``, ``str``, ``bool`` and each of them ``| None``; a field with a default may be absent on the wire, and is
  left out when it has its default;
* the field's metadata may give a shorter wire name: ``attrs.field(metadata={"wire": "k"})``;
* numbers are bounded: all so that databases can hold them and one more, those of the fields in :data:`IDS` as ids.

Unknown attributes are ignored, so that a newer peer may say more.

Several messages are written and read for each page that is fetched.  So the writer and the reader of a class are
compiled from its fields once, as attrs compiles its ``__init__``: a third of the time of a loop over the fields.  The
messages that come most often are read without expat, where nothing in them is escaped (:class:`FlatSpelling`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn, Self, get_type_hints

import attrs

from lcc.errors import StreamError
from lcc.numbers import parse_number
from lcc.protocols.fast_elements import FastAttribute, Row, Spelling
from lcc.protocols.xmlfeed import FastElements, Start
from lcc.protocols.xmltext import needs_no_escape, quoted, quoted_unescaped

NUMBER_MAX = 2**62
"""The greatest number that is read; the least is the same with a minus."""
ID_MAX = 2**31 - 1
"""The greatest id of a provider or a machine; 0 stands for none."""
IDS = frozenset(["pid", "machine"])


def _read_bool(value: str) -> bool:
    if value == "yes":
        return True
    if value == "no":
        return False
    raise ValueError(value)


def read_number(value: str) -> int:
    """A whole number as it stands on a wire.

    :raises ValueError: it is none, or out of bounds.
    """
    return parse_number(value, NUMBER_MAX, -NUMBER_MAX)


def _read_id(value: str) -> int:
    return parse_number(value, ID_MAX)


def _safe_digits(largest: int) -> int:
    """How many digits a number may have and be below this one, whatever they are."""
    return len(str(largest)) - 1


# How a value is written.
_WRITTEN: dict[type, str] = {int: '"{value}"', str: "{_quoted(value)}", bool: "{_YES if value else _NO}"}
# The same of a text of which is known that nothing in it has to be escaped but quotes.
_WRITTEN_UNESCAPED = "{_QUOTE + value + _QUOTE if _QUOTE not in value else _quoted_unescaped(value)}"
# How its text is read.  Digits alone, not too many, need no closer look: most numbers.
_DIGITS = "int(text) if len(text) <= {digits} and text.isdigit() and text.isascii() else {careful}"
_READ: dict[type, str] = {
    int: _DIGITS.format(digits=_safe_digits(NUMBER_MAX), careful="_read(_TAG, {wire!r}, text, read_number)"),
    str: "text",
    bool: "_read(_TAG, {wire!r}, text, _read_bool)",
}
_READ_ID = _DIGITS.format(digits=_safe_digits(ID_MAX), careful="_read(_TAG, {wire!r}, text, _read_id)")
# Values that need no closer look at all: their pattern (with the quotes), and how what it has found is read.
_FAST: dict[type, tuple[str, str]] = {
    int: (f'"[0-9]{{1,{_safe_digits(NUMBER_MAX)}}}"', "int({text}[1:-1])"),
    str: (r'"[ !#-%\'-;=?-~]{0,8192}+"|\'[ !"#-%(-;=?-~]{0,8192}+\'', "{text}[1:-1]"),
    bool: ('"yes"|"no"', "{text} == _YES"),
}
_FAST_ID = f'"[0-9]{{1,{_safe_digits(ID_MAX)}}}"'


def _read(tag: str, wire: str, text: str, reader: Callable[[str], Any]) -> Any:
    try:
        return reader(text)
    except ValueError:
        raise StreamError("syntax", f"<{tag}> with {wire}={text[:80]!r}") from None


def _missing(tag: str, wire: str) -> NoReturn:
    raise StreamError("syntax", f"<{tag}> without {wire}")


@attrs.frozen
class _Field:
    """A field of a message: its name, that on the wire, its type, its default (NOTHING: it is required)."""

    name: str
    wire: str
    kind: type
    optional: bool
    default: Any

    @property
    def variable(self) -> str:
        """In the readers and the writer: none of their other names begins so."""
        return f"of_{self.name}"

    def writing(self, *, unescaped: bool) -> list[str]:
        """Lines that put it behind ``text``."""
        value = self.variable if unescaped and self.kind is str else f"self.{self.name}"
        written = _WRITTEN_UNESCAPED if unescaped and self.kind is str else _WRITTEN[self.kind]
        tests = ["value is not None"] if self.optional else []
        if self.default is not attrs.NOTHING and self.default is not None:
            tests.append(f"value != {self.default!r}")
        line = f"text += f' {self.wire}={written}'"
        return [f"value = {value}", f"if {' and '.join(tests)}: {line}" if tests else line]

    def reading(self) -> list[str]:
        """Lines that put it into :attr:`variable`."""
        value = (_READ_ID if self.name in IDS else _READ[self.kind]).format(wire=self.wire)
        absent = f"{self.variable} = {self.default!r}"
        if self.default is attrs.NOTHING:
            absent = f"_missing(_TAG, {self.wire!r})"
        return [f"text = get({self.wire!r})", f"if text is None: {absent}", f"else: {self.variable} = {value}"]

    @property
    def fast_attribute(self) -> FastAttribute:
        """How it is spelled where it needs no closer look; the value has its quotes."""
        values = _FAST_ID if self.name in IDS else _FAST[self.kind][0]
        return FastAttribute(self.wire, values, "", self.default is not attrs.NOTHING)

    def reading_fast(self) -> str:
        """What it is, once such a value is in :attr:`variable`."""
        value = _FAST[self.kind][1].format(text=self.variable)
        return value if self.default is attrs.NOTHING else f"{value} if {self.variable} else {self.default!r}"


def _compile(fields: list[_Field], tag: str) -> dict[str, Any]:
    """The writer and the readers of a class with these fields."""
    texts = [field for field in fields if field.kind is str and not field.optional]
    write = ["def write(self):", f"    text = {f'<{tag}'!r}"]
    read = ["def read(cls, attributes):", "    get = attributes.get"]
    for field in fields:
        write += [f"    {line}" for line in field.writing(unescaped=False)]
        read += [f"    {line}" for line in field.reading()]
    write.append("    return text + '/>'")
    read.append(f"    return cls({', '.join(field.variable for field in fields)})")
    if len(texts) > 1 and len(texts) == sum(field.kind is str for field in fields):
        write += ["", "def write_unescaped(self):", *(f"    {each.variable} = self.{each.name}" for each in texts)]
        write.append(
            f"    if not _needs_no_escape({' + '.join(each.variable for each in texts)}): return write(self)"
        )
        write.append(f"    text = {f'<{tag}'!r}")
        write += [f"    {line}" for field in fields for line in field.writing(unescaped=True)]
        write.append("    return text + '/>'")
    else:
        write.append("write_unescaped = write")
    made = f"cls({', '.join(field.reading_fast() for field in fields)})"
    row = ", ".join([*(field.variable for field in fields), "_"])
    read += ["", "def read_fast(cls, rows):", f"    return [{made} for {row} in rows]"]
    names = {
        **globals(),
        "_quoted": quoted,
        "_quoted_unescaped": quoted_unescaped,
        "_needs_no_escape": needs_no_escape,
        "_TAG": tag,
        "_YES": '"yes"',
        "_NO": '"no"',
        "_QUOTE": '"',
    }
    exec("\n".join(write + read), names)  # made of names and defaults of our own classes, nothing else
    return names


@attrs.frozen
class Flat:
    """Base of the flat messages; ``TAG`` is the element's name."""

    TAG: ClassVar[str] = ""
    _write: ClassVar[Callable[[Any], str]]
    _reader: ClassVar[Callable[[Any, dict[str, str]], Any]]
    _fast_reader: ClassVar[Callable[[Any, list[Row]], list[Any]]]
    _fast_attributes: ClassVar[Sequence[FastAttribute]]
    _prepared: ClassVar[type | None] = None

    @classmethod
    def _prepare(cls) -> None:
        hints = get_type_hints(cls)
        fields: list[_Field] = []
        for field in attrs.fields(cls):
            hint = hints[field.name]
            kinds = getattr(hint, "__args__", (hint,))
            kind = next(each for each in kinds if each is not type(None))
            wire = field.metadata.get("wire", field.name)
            fields.append(_Field(field.name, wire, kind, type(None) in kinds, field.default))
        compiled = _compile(fields, cls.TAG)
        cls._write = compiled["write_unescaped"]
        cls._reader = staticmethod(compiled["read"])
        cls._fast_reader = staticmethod(compiled["read_fast"])
        cls._fast_attributes = [field.fast_attribute for field in fields]
        cls._prepared = cls

    def to_xml(self) -> str:
        """The element as text."""
        kind = self.__class__
        if kind._prepared is not kind:
            kind._prepare()
        return self._write()

    @classmethod
    def from_attributes(cls, attributes: dict[str, str]) -> Self:
        """The message that these attributes say.

        :raises StreamError: naming the element and the attribute that is missing or wrong.
        """
        if cls._prepared is not cls:
            cls._prepare()
        message: Self = cls._reader(cls, attributes)
        return message


@attrs.frozen(slots=False)  # half of the time to make one
class FrequentFlat(Flat):
    """Base of the messages that come for each page."""

    def replaced(self, **changes: Any) -> Self:
        """A copy with other values: :func:`attrs.evolve` in a third of its time."""
        copy = object.__new__(self.__class__)
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy


class FlatSpelling(Spelling):
    """Messages of one class as they are usually spelled: as they are written here, and nothing in them escaped.

    They are read by a regular expression (:mod:`lcc.protocols.fast_elements`): a third of the time that expat takes.
    """

    def __init__(self, kind: type[Flat]) -> None:
        if kind._prepared is not kind:
            kind._prepare()
        super().__init__(kind.TAG, kind._fast_attributes)
        self._kind = kind

    def attributes(self, row: Row) -> dict[str, str]:
        return {name: value[1:-1] for name, value in zip(self.names, row, strict=False) if value}

    def messages(self, rows: list[Row]) -> list[Flat]:
        """What these elements say."""
        return self._kind._fast_reader(self._kind, rows)


class Vocabulary:
    """The messages of one direction of one wire, by tag.

    :param often: those of them that come for each page.
    """

    def __init__(self, *kinds: type[Flat], often: Iterable[type[Flat]] = ()) -> None:
        self._kinds = {kind.TAG: kind for kind in kinds}
        self.spellings = tuple(FlatSpelling(kind) for kind in often)
        """For a feed whose elements are read with :meth:`messages`."""

    def read(self, tag: str, attributes: dict[str, str]) -> Flat:
        """The message of this tag and these attributes.

        :raises StreamError: for an unknown tag or a bad attribute.
        """
        kind = self._kinds.get(tag)
        if kind is None:
            raise StreamError("unknown-message", f"<{tag[:80]}>")
        return kind.from_attributes(attributes)

    def messages(self, elements: Iterable[Start | FastElements]) -> Iterator[Flat]:
        """What these elements say, one after the other.

        :raises StreamError: as :meth:`read`, where such an element comes.
        """
        for element in elements:
            if isinstance(element, FastElements):
                assert isinstance(element.spelling, FlatSpelling)
                yield from element.spelling.messages(element.rows)
            else:
                yield self.read(element.name, element.attributes)
