"""Flat messages: an element without content whose attributes are the fields of a frozen class.

The vocabulary of every internal wire is made of these.  A class is declared once, with attrs; this module derives
the writer and the reader from its fields:

* ``int``, ``str``, ``bool`` and each of them ``| None``; a field with a default may be absent on the wire, and is
  left out when it has its default;
* the field's metadata may give a shorter wire name: ``attrs.field(metadata={"wire": "k"})``;
* numbers are bounded: all so that databases can hold them and one more, those of the fields in :data:`IDS` as ids.

Unknown attributes are ignored, so that a newer peer may say more.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Self, get_type_hints

import attrs

from lcc.errors import StreamError
from lcc.protocols.xmltext import quoted

NUMBER_MAX = 2**62
"""The greatest number that is read; the least is the same with a minus."""
ID_MAX = 2**31 - 1
"""The greatest id of a provider or a machine; 0 stands for none."""
IDS = frozenset(["pid", "machine"])

_Writer = tuple[str, Callable[[Any], str], Any]
"""How a field is written: `` name=``, its text in quotes, the default that is left out."""
_Reader = tuple[str, Callable[[str], Any], Any]
"""How a field is read: its name on the wire, its value, its default."""


def _read_bool(value: str) -> bool:
    if value == "yes":
        return True
    if value == "no":
        return False
    raise ValueError(value)


def _write_bool(value: bool) -> str:
    return '"yes"' if value else '"no"'


def _write_int(value: int) -> str:
    return f'"{value}"'


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


_READERS: dict[type, Callable[[str], Any]] = {int: read_number, str: str, bool: _read_bool}
_WRITERS: dict[type, Callable[[Any], str]] = {int: _write_int, str: quoted, bool: _write_bool}


@attrs.frozen
class Flat:
    """Base of the flat messages; ``TAG`` is the element's name."""

    TAG: ClassVar[str] = ""
    _values: ClassVar[Callable[[Any], tuple[Any, ...]]]
    _writers: ClassVar[tuple[_Writer, ...]]
    _readers: ClassVar[tuple[_Reader, ...]]
    _prepared: ClassVar[type | None] = None

    @classmethod
    def _prepare(cls) -> None:
        hints = get_type_hints(cls)
        writers: list[_Writer] = []
        readers: list[_Reader] = []
        names = [field.name for field in attrs.fields(cls)]
        for field in attrs.fields(cls):
            kind = hints[field.name]
            base = next(k for k in getattr(kind, "__args__", (kind,)) if k is not type(None))
            wire = field.metadata.get("wire", field.name)
            writers.append((f" {wire}=", _WRITERS[base], field.default))
            readers.append((wire, _read_id if field.name in IDS else _READERS[base], field.default))
        # attrgetter gives no tuple for a single name, and takes none at all.
        getter: Any = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, n) for n in names)
        cls._values = staticmethod(getter)
        cls._writers = tuple(writers)
        cls._readers = tuple(readers)
        cls._prepared = cls

    def to_xml(self) -> str:
        """The element as text."""
        kind = self.__class__
        if kind._prepared is not kind:
            kind._prepare()
        parts = [f"<{kind.TAG}"]
        for (start, write, default), value in zip(kind._writers, kind._values(self), strict=True):
            if value is not None and value != default:
                parts.append(start + write(value))
        parts.append("/>")
        return "".join(parts)

    @classmethod
    def from_attributes(cls, attributes: dict[str, str]) -> Self:
        """The message that these attributes say.

        :raises StreamError: naming the element and the attribute that is missing or wrong.
        """
        if cls._prepared is not cls:
            cls._prepare()
        get = attributes.get
        values: list[Any] = []
        for wire, read, default in cls._readers:
            text = get(wire)
            if text is None:
                if default is attrs.NOTHING:
                    raise StreamError("syntax", f"<{cls.TAG}> without {wire}")
                values.append(default)
                continue
            try:
                values.append(read(text))
            except ValueError:
                raise StreamError("syntax", f"<{cls.TAG}> with {wire}={text[:80]!r}") from None
        return cls(*values)


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
