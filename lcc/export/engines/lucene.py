"""Lucene 8: an index that any Java program reads, written by Lucene itself through JPype.

The place is in the user data of Lucene's commit: pages and place are there together, or neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lcc.commands.errors import SEE_SYSTEM, Failed
from lcc.export.filling import Fields

JARS = Path("/usr/share/java")
"""Where Debian has them."""
_WANTED = ("lucene-core-8", "lucene-analyzers-common-8")
_PLACE = "lcc"
"""Of the commit's user data."""
_RAM_MB = 64.0
_STORE, _INDEX, _DOCUMENT = (f"org.apache.lucene.{name}" for name in ("store", "index", "document"))


def start_java(jars: Path) -> None:
    """Start Java in this process, once, with Lucene.

    :param jars: the folder with Lucene's jars.
    :raises Failed: something is missing.
    """
    if find_spec("jpype") is None:
        raise Failed("lucene needs JPype", "install it: pip install 'dist/lcc-….whl[lucene]'")
    import jpype

    paths = [sorted(jars.glob(f"{name}*.jar")) for name in _WANTED]
    if not all(paths):
        raise Failed(
            f"{jars} has no Lucene 8 ({_WANTED[0]}*.jar, {_WANTED[1]}*.jar)",
            "install it (Debian: liblucene8-java), or name its folder with --jars",
        )
    if jpype.isJVMStarted():
        return
    try:
        # Ctrl-C is for Python.
        jpype.startJVM("-Xmx1g", "-Xrs", classpath=[str(found[-1]) for found in paths], interrupt=True)
    except (OSError, RuntimeError, jpype.JVMNotFoundException) as error:
        raise Failed(f"cannot start Java: {error}", "install a JRE (Debian: default-jre-headless)") from None


class Lucene:
    """A Lucene index.

    Fields: ``key``, ``url``, ``curl``, ``provider``, ``mimetype`` and ``subtype`` as single terms; ``title`` and
    ``text`` analysed by the StandardAnalyzer; ``modified`` and ``fetched`` (seconds) and ``size`` as numbers to
    search and to sort by.  All of them are stored.

    :param folder: is made.
    :raises Failed: it cannot be used.
    """

    def __init__(self, folder: Path, jars: Path = JARS) -> None:
        start_java(jars)
        from jpype import JClass

        self._folder = folder
        with self._said():
            files = JClass("java.nio.file.Paths").get(str(folder.absolute()))
            directory = JClass(f"{_STORE}.FSDirectory").open(files)
            analyzer = JClass("org.apache.lucene.analysis.standard.StandardAnalyzer")()
            config = JClass(f"{_INDEX}.IndexWriterConfig")(analyzer)
            config.setRAMBufferSizeMB(_RAM_MB)
            config.setCommitOnClose(False)
            theirs = JClass(f"{_INDEX}.DirectoryReader").indexExists(directory)
            self._writer = JClass(f"{_INDEX}.IndexWriter")(directory, config)
            said = {str(each.getKey()): str(each.getValue()) for each in self._writer.getLiveCommitData() or ()}
        self.place = said.get(_PLACE, "")
        if theirs and not self.place:
            self.close()
            raise Failed(f"{folder} has a Lucene index of another program", "choose another folder")
        self._document, self._term = JClass(f"{_DOCUMENT}.Document"), JClass(f"{_INDEX}.Term")
        self._fields = _Makers(JClass)

    def put(self, fields: Fields) -> None:
        document, made = self._document(), self._fields
        with self._said():
            for name, text in (*fields.terms, ("provider", str(fields.provider))):
                document.add(made.term(name, text))
            for name, text in fields.texts:
                document.add(made.text(name, text))
            for name, number in fields.numbers:
                for field in made.number(name, number):
                    document.add(field)
            self._writer.updateDocument(self._term("key", fields.key), document)

    def remove(self, key: str) -> None:
        with self._said():
            self._writer.deleteDocuments([self._term("key", key)])

    def clear(self) -> None:
        with self._said():
            self._writer.deleteAll()

    def commit(self, place: str) -> None:
        from jpype import JClass

        with self._said():
            data = JClass("java.util.HashMap")()
            data.put(_PLACE, place)
            self._writer.setLiveCommitData(data.entrySet())
            self._writer.commit()
        self.place = place

    def close(self) -> None:
        with self._said():
            self._writer.rollback()

    @contextmanager
    def _said(self) -> Iterator[None]:
        import jpype

        try:
            yield
        except jpype.JException as error:
            what = f"{self._folder}: {error}"
            if "LockObtainFailedException" in type(error).__name__:
                raise Failed(f"{self._folder} is in use by another writer", "try again when that has ended") from None
            raise Failed(what, SEE_SYSTEM) from None


class _Makers:
    """Make Lucene's fields."""

    def __init__(self, java: Callable[[str], Any]) -> None:
        kinds = ("StringField", "TextField", "LongPoint", "StoredField", "NumericDocValuesField")
        self._string, self._analysed, self._point, self._stored, self._sorted = (
            java(f"{_DOCUMENT}.{kind}") for kind in kinds
        )
        self._yes = java(f"{_DOCUMENT}.Field$Store").YES

    def term(self, name: str, text: str) -> Any:
        """One term, as it is."""
        return self._string(name, _clean(text), self._yes)

    def text(self, name: str, text: str) -> Any:
        """Words."""
        return self._analysed(name, _clean(text), self._yes)

    def number(self, name: str, number: int) -> tuple[Any, ...]:
        """To search by, to show, and to sort by."""
        from jpype import JLong

        long = JLong(number)
        return self._point(name, long), self._stored(name, long), self._sorted(name, long)


def _clean(text: str) -> str:
    """Without halves of surrogates, which are no text."""
    return text.encode("utf-8", "replace").decode()
