"""Flat messages: an element without content whose attributes are the fields of a frozen class.

The vocabulary of every internal wire is made of these.  A class is declared once, with attrs; this module derives
the writer and the reader from its fields:

* ``int``, ``str``, ``bool`` and each of them ``| None``; a field with a default may be absent on the wire, and is
  left out when it has its default;
* the field's metadata may give a shorter wire name: ``attrs.field(metadata={"wire": "k"})``;
* numbers are bounded: all so that databases can hold them and one more, those of the fields in :data:`IDS` as ids.

Unknown attributes are ignored, so that a newer peer may say more.

Several messages are written and read for each page that is fetched.  So the writer and the reader of a class are
compiled from its fields once, as attrs compiles its ``__init__``: a third of the time of a loop over the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self, get_type_hints

import attrs

from lcc.errors import StreamError
from lcc.protocols.xmltext import quoted

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
    # int() alone takes '1_0', ' 1' and other digits than ours, and megabytes of them.
    if len(value) > 20 or not value.isascii() or not value.removeprefix("-").isdigit():
        raise ValueError(value)
    number = int(value)
    if not -NUMBER_MAX <= number <= NUMBER_MAX:
        raise ValueError(value)
    return number


def _read_id(value: str) -> int:
    number = read_number(value)
    if not 0 <= number <= ID_MAX:
        raise ValueError(value)
    return number


def _safe_digits(largest: int) -> int:
    """How many digits a number may have and be below this one, whatever they are."""
    return len(str(largest)) - 1


# How a value is written, and how its text is read.  Digits alone, not too many, need no closer look: most numbers.
_DIGITS = "int(text) if len(text) <= {digits} and text.isdigit() and text.isascii() else {careful}"
_WRITTEN: dict[type, str] = {int: '"{value}"', str: "{_quoted(value)}", bool: "{_YES if value else _NO}"}
_READ: dict[type, str] = {
    int: _DIGITS.format(digits=_safe_digits(NUMBER_MAX), careful="_read(_TAG, {wire!r}, text, read_number)"),
    str: "text",
    bool: "_read(_TAG, {wire!r}, text, _read_bool)",
}
_READ_ID = _DIGITS.format(digits=_safe_digits(ID_MAX), careful="_read(_TAG, {wire!r}, text, _read_id)")


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
        """In the reader: none of its other names begins so."""
        return f"of_{self.name}"

    def writing(self) -> list[str]:
        """Lines that put it behind ``text``."""
        tests = ["value is not None"] if self.optional else []
        if self.default is not attrs.NOTHING and self.default is not None:
            tests.append(f"value != {self.default!r}")
        line = f"text += f' {self.wire}={_WRITTEN[self.kind]}'"
        return [f"value = self.{self.name}", f"if {' and '.join(tests)}: {line}" if tests else line]

    def reading(self) -> list[str]:
        """Lines that put it into :attr:`variable`."""
        value = (_READ_ID if self.name in IDS else _READ[self.kind]).format(wire=self.wire)
        absent = f"{self.variable} = {self.default!r}"
        if self.default is attrs.NOTHING:
            absent = f"_missing(_TAG, {self.wire!r})"
        return [f"text = get({self.wire!r})", f"if text is None: {absent}", f"else: {self.variable} = {value}"]


def _compile(fields: list[_Field], tag: str) -> tuple[Callable[[Any], str], Callable[[Any, dict[str, str]], Any]]:
    """The writer and the reader of a class with these fields."""
    write = ["def write(self):", f"    text = {f'<{tag}'!r}"]
    read = ["def read(cls, attributes):", "    get = attributes.get"]
    for field in fields:
        write += [f"    {line}" for line in field.writing()]
        read += [f"    {line}" for line in field.reading()]
    write.append("    return text + '/>'")
    read.append(f"    return cls({', '.join(field.variable for field in fields)})")
    names = {**globals(), "_quoted": quoted, "_TAG": tag, "_YES": '"yes"', "_NO": '"no"'}
    exec("\n".join(write + read), names)  # made of names and defaults of our own classes, nothing else
    return names["write"], names["read"]


@attrs.frozen
class Flat:
    """Base of the flat messages; ``TAG`` is the element's name."""

    TAG: ClassVar[str] = ""
    _write: ClassVar[Callable[[Any], str]]
    _reader: ClassVar[Callable[[Any, dict[str, str]], Any]]
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
        write, read = _compile(fields, cls.TAG)
        cls._write = write
        cls._reader = staticmethod(read)
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


class Vocabulary:
    """The messages of one direction of one wire, by tag."""

    def __init__(self, *kinds: type[Flat]) -> None:
        self._kinds = {kind.TAG: kind for kind in kinds}

    def read(self, tag: str, attributes: dict[str, str]) -> Flat:
        """The message of this tag and these attributes.

        :raises StreamError: for an unknown tag or a bad attribute.
        """
        kind = self._kinds.get(tag)
        if kind is None:
            raise StreamError("unknown-message", f"<{tag[:80]}>")
        return kind.from_attributes(attributes)
