"""Tantivy: an index that programs in Rust or Python read.

Its commits hold nothing but documents, so the place is in a file beside them, written after the commit: whoever is
killed in between writes the same pages again, by their keys.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lcc.commands.errors import SEE_SYSTEM, Failed
from lcc.export.files import replacing
from lcc.export.filling import Fields, Place

PLACE_NAME = "lcc-export.json"
_META = "meta.json"
"""An index has it."""
_HEAP_BYTES = 128_000_000
_I64 = 2**63


class Tantivy:
    """A tantivy index.

    Fields: ``key``, ``url``, ``curl``, ``mimetype`` and ``subtype`` as single terms; ``title`` and ``text`` by the
    default tokenizer; ``provider``, ``modified`` and ``fetched`` (seconds) and ``size`` as fast fields.  All of them
    are stored.

    :param folder: is made.
    :raises Failed: it cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        if find_spec("tantivy") is None:
            raise Failed("tantivy needs its library", "install it: pip install 'dist/lcc-….whl[search]'")
        import tantivy

        self._folder = folder
        self._file = folder / PLACE_NAME
        self._document = tantivy.Document
        with self._said():
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.place = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
            if not self.place:
                if (folder / _META).exists():
                    raise Failed(f"{folder} has a tantivy index of another program", "choose another folder")
                # From now on it is known whose index this is.
                self._keep(Place().pack())
            index = tantivy.Index(_schema(tantivy.SchemaBuilder()), path=str(folder), reuse=True)
            self._writer: Any = index.writer(_HEAP_BYTES)

    def put(self, fields: Fields) -> None:
        document = self._document()
        for name, text in (*fields.terms, *fields.texts):
            document.add_text(name, text.encode("utf-8", "replace").decode())
        for name, number in (*fields.numbers, ("provider", fields.provider)):
            if -_I64 <= number < _I64:
                document.add_integer(name, number)
        with self._said():
            self._writer.delete_documents_by_term("key", fields.key)
            self._writer.add_document(document)

    def remove(self, key: str) -> None:
        with self._said():
            self._writer.delete_documents_by_term("key", key)

    def clear(self) -> None:
        with self._said():
            self._writer.delete_all_documents()

    def commit(self, place: str) -> None:
        asked = Place.unpack(place).asked
        with self._said():
            if Place.unpack(self.place).asked not in ("", asked):
                # Killed behind the commit, it must not go on with pages of another selection.
                self._keep(Place(asked=asked).pack())
            self._writer.commit()
            self._keep(place)

    def close(self) -> None:
        self._writer = None  # its lock goes with it, and what was not committed
        os.close(self._lock)

    def _keep(self, place: str) -> None:
        with replacing(self._file) as file:
            file.write(place.encode())
        self.place = place

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:
            raise Failed(f"{self._folder} is in use by another lcc-export", "try again when that has ended") from None
        # tantivy tells all that goes wrong by ValueError.
        except (OSError, ValueError) as error:
            raise Failed(f"{self._folder}: {error}", SEE_SYSTEM) from None


def _schema(builder: Any) -> Any:
    for name in ("key", "url", "curl", "mimetype", "subtype"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("title", "text"):
        builder.add_text_field(name, stored=True)
    for name in ("provider", "modified", "fetched", "size"):
        builder.add_integer_field(name, stored=True, indexed=True, fast=True)
    return builder.build()
