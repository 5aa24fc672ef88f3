"""Flat messages: an element without content whose attributes are the fields of a frozen class.

The vocabulary of every internal wire is made of these.  A class is declared once, with attrs; this module derives
the writer and the reader from its fields:

* ``int``, ``str``, ``bool`` and each of them ``| None``; a field with a default may be absent on the wire, and is
  left out when it has its default;
* the field's metadata may give a shorter wire name: ``attrs.field(metadata={"wire": "k"})``.

Unknown attributes are ignored, so that a newer peer may say more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

import attrs

from lcc.errors import StreamError
from lcc.protocols.xmltext import escape

_Codec = tuple[str, str, Callable[[Any], str], Callable[[str], Any], Any]


def _read_bool(value: str) -> bool:
    if value == "yes":
        return True
    if value == "no":
        return False
    raise ValueError(value)


def _write_bool(value: bool) -> str:
    return "yes" if value else "no"


def _read_int(value: str) -> int:
    # int() alone takes '1_0', ' 1' and other digits than ours, and megabytes of them.
    if len(value) > 20 or not value.isascii() or not value.removeprefix("-").isdigit():
        raise ValueError(value)
    return int(value)


_READERS: dict[type, Callable[[str], Any]] = {int: _read_int, str: str, bool: _read_bool}
_WRITERS: dict[type, Callable[[Any], str]] = {int: str, str: escape, bool: _write_bool}


@attrs.frozen
class Flat:
    """Base of the flat messages; ``TAG`` is the element's name."""

    TAG: ClassVar[str] = ""
    _codecs: ClassVar[tuple[_Codec, ...]] = ()

    @classmethod
    def _prepare(cls) -> tuple[_Codec, ...]:
        hints = get_type_hints(cls)
        codecs: list[_Codec] = []
        for field in attrs.fields(cls):
            kind = hints[field.name]
            options = [k for k in getattr(kind, "__args__", (kind,)) if k is not type(None)]
            base = options[0]
            codecs.append(
                (field.name, field.metadata.get("wire", field.name), _WRITERS[base], _READERS[base], field.default)
            )
        cls._codecs = tuple(codecs)
        return cls._codecs

    def to_xml(self) -> str:
        """The element as text."""
        parts = [f"<{self.TAG}"]
        codecs = self.__class__.__dict__.get("_codecs") or self._prepare()
        for name, wire, write, _read, default in codecs:
            value = getattr(self, name)
            if value is not None and value != default:
                parts.append(f' {wire}="{write(value)}"')
        parts.append("/>")
        return "".join(parts)

    @classmethod
    def from_attributes(cls, attributes: dict[str, str]) -> Self:
        """The message that these attributes say.

        :raises StreamError: naming the element and the attribute that is missing or wrong.
        """
        codecs = cls.__dict__.get("_codecs") or cls._prepare()
        values: list[Any] = []
        for _name, wire, _write, read, default in codecs:
            text = attributes.get(wire)
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


FlatT = TypeVar("FlatT", bound=Flat)


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
