"""An index of pages on the disk, by tantivy (the extra ``lcc[search]``).  What is here blocks: call it in threads.

Each page is one document.  Besides these there is a document that holds the state of the index, such as the change
token: it is replaced in the commit that brings the pages up to the token, so that a crash loses both or neither.
Documents that no search may find (the state, pages that ask not to be indexed) have none of the fields that queries
look at; every query has a clause that looks at one of these.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import attrs
import tantivy
from tantivy import FieldType, Occur
from tantivy import Query as Lookup

from lcc.numbers import INT64_MAX, parse_number
from lcc.search.folders import room_in, size_of
from lcc.search.folding import Places, fold
from lcc.search.interfaces import BadPlace, IndexDamaged, OtherVersion
from lcc.search.schema import TEXTS, hosts_above, index_schema, word_analyzer
from lcc.search.suggestions import nearest
from lcc.search.values import (
    Clause,
    Facet,
    Hit,
    IndexChange,
    IndexedPage,
    Kind,
    Order,
    Query,
    RemovedPage,
    Results,
    Scopes,
    Snippet,
)

FORMAT = 4
"""Of the documents: an index of another one is built anew."""
OTHER_VERSION = "it is of another version"
_OTHER_SCHEMA = "schema does not match"
"""What tantivy says of an index with other fields."""
HITS_MAX = 1000
"""Nobody reads on behind as many."""
COMMITS = 250
"""After so many the index is opened anew: each leaves 1.5 KB in memory."""
FACETS = 10
SNIPPET_CHARS = 240
SUGGEST_UP_TO = 3
"""Whoever finds more has not misspelt anything."""
_NEAR_CHARS = 100
"""Signs in such a distance are nothing that a snippet lacks."""
SUGGEST_SECONDS = 0.02
"""Of the processor, for one query: its words, and the texts that are like them, are a stranger's."""
_SAMPLE = 20
_SAMPLE_CHARS = 10_000
_SUGGESTED_WORDS_MAX = 2
_STATE = "!state"
_SYSTEM_CODE = re.compile(r"(?:\bOs \{ code: |\bos error )([0-9]{1,9})")


@attrs.frozen
class IndexState:
    """What an index says of itself.

    :ivar token: of ``lcc-cu``: up to where the changes are in it; empty: none yet.
    :ivar generation: of the documents: those of an earlier one go when all pages were read again.
    :ivar complete: all pages of the cache were read once.
    :ivar why: it was begun anew, if it is not complete; empty: it is the first one.
    :ivar read_as: names the content user as whom the pages were read; empty: without a token.
    """

    token: str = ""
    generation: int = 1
    complete: bool = False
    why: str = ""
    read_as: str = ""

    def advanced(self, token: str, complete: bool, read_as: str) -> IndexState:
        """With all changes up to this token.

        :param complete: they are all pages of the cache.
        """
        complete = self.complete or complete
        why = "" if complete else self.why
        return attrs.evolve(self, token=token, complete=complete, why=why, read_as=read_as)


class Counts(NamedTuple):
    """Documents of each kind.

    :ivar pages: that can be found; ``unread`` of them have no text, because it could not be read.
    :ivar missing: whose content the cache could not give.
    """

    pages: int = 0
    unread: int = 0
    hidden: int = 0
    missing: int = 0


class Standing(NamedTuple):
    """How a page is in an index.

    :ivar kind: ``page``: it can be found; ``hidden``: it asks not to be; ``missing``: without its content.
    :ivar change: of the cache, that the index has.
    :ivar fault: why it has no text; empty: it has.
    """

    kind: str
    change: int
    fault: str = ""


class TextIndex:
    """An index.  One process at a time writes it; any number may read it meanwhile.

    :param folder: where it is; it is made if it does not exist.
    :param memory_bytes: held by what is not committed yet, about.
    :raises IndexDamaged: it cannot be read.
    :raises OSError: the system refuses: no permission, too many open files.
    """

    def __init__(self, folder: Path, memory_bytes: int = 64 << 20) -> None:
        self.folder = folder
        self.state = IndexState()
        self.counts = Counts()
        self.size_bytes = 0
        self._memory_bytes = memory_bytes
        self._analyzer = word_analyzer()
        self._writer: Any = None
        self._commits = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._schema = index_schema()
        with _reading(folder):
            self._index = self._opened()
            self._look()

    def _opened(self) -> Any:
        index = tantivy.Index(self._schema, str(self.folder))
        index.register_tokenizer("words", self._analyzer)
        index.config_reader("manual")
        return index

    def close(self) -> None:
        """Let others write it; what was not committed is lost."""
        self._writer = None

    # Writing.

    def add(self, changes: Sequence[IndexChange]) -> None:
        """Take changes, the last one of a page last; they are in effect after :meth:`commit`.

        :raises OSError: they cannot be written; all that was not committed is lost.
        """
        with self._written() as writer:
            for change in changes:
                writer.delete_documents_by_term("key", change.key)
                if not isinstance(change, RemovedPage):
                    writer.add_document(self._document(change))

    def commit(self, state: IndexState) -> None:
        """Put all that was added into effect, durably.

        :param state: from now on; if its generation is ``complete``, documents of earlier ones go.
        :raises OSError: it cannot be written; all that was not committed is lost.
        """
        with self._written() as writer:
            if state.complete and not self.state.complete and state.generation > 1:
                old = Lookup.range_query(
                    self._schema, "generation", FieldType.Unsigned, upper_bound=state.generation, include_upper=False
                )
                writer.delete_documents_by_query(old)
            document = tantivy.Document()
            document.add_text("key", _STATE)
            document.add_text("kind", "state")
            document.add_unsigned("generation", state.generation)
            document.add_bytes("record", json.dumps({"format": FORMAT, **attrs.asdict(state)}).encode())
            writer.delete_documents_by_term("key", _STATE)
            writer.add_document(document)
            writer.commit()
        with _reading(self.folder):
            self._look()
        self._commits += 1
        if self._commits >= COMMITS:
            self._open_anew()

    def _open_anew(self) -> None:
        """Forget what tantivy remembers of files that are gone: it has the path of each that it has ever read."""
        self._commits = 0
        with self._written() as writer:
            self._writer = None
            writer.wait_merging_threads()
        with _reading(self.folder):
            self._index = self._opened()

    @contextmanager
    def _written(self) -> Iterator[Any]:
        """What writes; if it fails, what it had not committed is lost."""
        try:
            if self._writer is None:
                self._writer = self._index.writer(self._memory_bytes, 1)
            yield self._writer
        except BaseException as error:
            self._give_up()
            if is_tantivys(error):
                raise OSError(f"cannot write the index in {self.folder} ({room_in(self.folder)}): {error}") from error
            raise

    def _give_up(self) -> None:
        """The writer has failed: end it now, for it has the lock as long as a traceback knows it."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.wait_merging_threads()
            except BaseException as error:
                if not is_tantivys(error):
                    raise

    def _document(self, page: IndexedPage) -> Any:
        document = tantivy.Document()
        document.add_text("key", page.key)
        document.add_text("version", f"{page.key}:{page.change}")
        document.add_unsigned("generation", self.state.generation)
        record: dict[str, Any] = {"key": page.key, "url": page.url}
        if page.hidden or page.missing:
            document.add_text("kind", "missing" if page.missing else "hidden")
            document.add_bytes("record", json.dumps(record).encode())
            return document
        document.add_text("kind", "page")
        if page.fault:
            document.add_text("kind", "unread")
        for name in hosts_above(page.site):
            document.add_text("within", name)
        document.add_text("site", page.site)
        document.add_text("type", page.type)
        document.add_text("language", page.language)
        for name, value in (("title", page.title), ("headings", page.headings), ("text", page.text)):
            if value:
                document.add_text(name, fold(value))
        if page.text:
            document.add_bytes("original", page.text.encode())
        document.add_unsigned("provider", page.provider)
        document.add_unsigned("date", max(0, page.date))
        record |= {
            "title": page.title,
            "date": page.date,
            "type": page.type,
            "site": page.site,
            "language": page.language,
            "provider": page.provider,
            "browsable": page.browsable,
        }
        if page.fault:
            record["fault"] = page.fault
        if not page.has_copy:
            record["has_copy"] = False
        document.add_bytes("record", json.dumps(record, separators=(",", ":")).encode())
        return document

    # Reading.

    def _look(self) -> None:
        """See what was committed."""
        self._index.reload()
        searcher = self._index.searcher()
        found = searcher.search(self._term("kind", "state"), 1).hits
        if found:
            values = json.loads(searcher.doc(found[0][1]).get_first("record"))
            if values.pop("format", None) != FORMAT:
                raise ValueError(OTHER_VERSION)
            self.state = IndexState(**values)
        elif searcher.num_docs:
            raise ValueError("it does not say how far it goes")
        self.counts = Counts(*(searcher.search(self._term("kind", kind), 1).count for kind in _KINDS))
        self.size_bytes = size_of(self.folder)

    def reload(self) -> None:
        """See what another process has committed.

        :raises IndexDamaged: it cannot be read.
        """
        with _reading(self.folder):
            self._look()

    def search(self, query: Query, scopes: Scopes, limit: int, after: str = "") -> Results:
        """As :meth:`lcc.search.interfaces.ISearchIndex.search`.

        :raises BadPlace: ``after`` is none.
        :raises IndexDamaged: the index cannot be read.
        """
        try:
            offset = parse_number(after, HITS_MAX) if after else 0
        except ValueError:
            raise BadPlace(f"after: {after[:40]!r} is not what a search gave as next") from None
        limit = max(0, min(limit, HITS_MAX - offset))
        with _reading(self.folder):
            return self._search(query, scopes, limit, offset)

    def _search(self, query: Query, scopes: Scopes, limit: int, offset: int) -> Results:
        searcher = self._index.searcher()
        lookup = self._lookup(query.clauses, scopes)
        by_date = query.order is Order.DATE
        found = searcher.search(
            lookup, max(limit, 1), offset=offset, **({"order_by_field": "date"} if by_date else {})
        )
        total = found.count
        # Scores tell in how many pages the words are, also in those of others.  Relative ones tell less.
        best = 1.0
        if scopes is not None and found.hits and not by_date:
            best = (searcher.search(lookup, 1) if offset else found).hits[0][0] or 1.0
        # What is said of "not" is nothing to mark.
        words = [each for each in query.clauses if not each.negated and each.kind in (Kind.WORD, Kind.PHRASE)]
        marks = Lookup.boolean_query([(Occur.Should, self._text(each, ("text",))) for each in words])
        snippets = tantivy.SnippetGenerator.create(searcher, marks, self._schema, "text")
        snippets.set_max_num_chars(SNIPPET_CHARS)
        hits = []
        for score, address in found.hits[:limit]:
            document = searcher.doc(address)
            hits.append(_hit(document, snippets, 0.0 if by_date else score / best))
        end = offset + len(hits)
        sites: tuple[Facet, ...] = ()
        types: tuple[Facet, ...] = ()
        suggestion = ""
        if not offset:
            if total:
                sites, types = self._facets(searcher, lookup)
            if total <= SUGGEST_UP_TO:
                suggestion = self._suggestion(searcher, query, scopes, total)
        return Results(
            tuple(hits), total, sites, types, suggestion, str(end) if hits and end < min(total, HITS_MAX) else ""
        )

    def _facets(self, searcher: Any, lookup: Any) -> tuple[tuple[Facet, ...], tuple[Facet, ...]]:
        asked = {name: {"terms": {"field": name, "size": FACETS}} for name in ("site", "type")}
        found = searcher.aggregate(lookup, asked)
        sites, types = (
            tuple(Facet(each["key"], each["doc_count"]) for each in found[name]["buckets"])
            for name in ("site", "type")
        )
        return sites, types

    def versions(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Key and change of each page whose key begins so, sorted."""
        found = self._index.searcher().terms_with_prefix("version", prefix, filter_query=Lookup.all_query())
        for version, _ in found:
            key, _, change = version.partition(":")
            yield key, parse_number(change, INT64_MAX)

    def missing(self, limit: int) -> dict[str, int]:
        """Keys of pages whose content the cache could not give, and as of which change."""
        searcher = self._index.searcher()
        found = searcher.search(self._term("kind", "missing"), limit).hits
        keys = [json.loads(searcher.doc(address).get_first("record"))["key"] for _, address in found]
        return {key: change for each in keys for key, change in self.versions(f"{each}:")}

    def standing(self, key: str) -> Standing | None:
        """How a page is in the index; None: it is not.

        :raises IndexDamaged: the index cannot be read.
        """
        with _reading(self.folder):
            found = list(self.versions(f"{key}:"))
            if not found:
                return None
            searcher = self._index.searcher()
            own = self._term("key", key)
            for kind in ("hidden", "missing"):
                both = Lookup.boolean_query([(Occur.Must, own), (Occur.Must, self._term("kind", kind))])
                if searcher.search(both, 1).count:
                    return Standing(kind, found[-1][1])
            ((_, address),) = searcher.search(own, 1).hits
            record = json.loads(searcher.doc(address).get_first("record"))
            return Standing("page", found[-1][1], record.get("fault", ""))

    def text(self, key: str, change: int) -> str:
        """The text of a page as of this change; empty: it is not in the index like that, or has none.

        :raises IndexDamaged: the index cannot be read.
        """
        with _reading(self.folder):
            searcher = self._index.searcher()
            found = searcher.search(self._term("version", f"{key}:{change}"), 1).hits
            return _original(searcher.doc(found[0][1])) if found else ""

    # What is looked for.

    def _term(self, field: str, value: str) -> Any:
        return Lookup.term_query(self._schema, field, value, index_option="basic")

    def _lookup(self, clauses: Sequence[Clause], scopes: Scopes) -> Any:
        parts = []
        for clause in clauses:
            part = self._clause(clause)
            parts.append((Occur.MustNot if clause.negated else Occur.Must, part))
        if scopes is not None:
            allowed = Lookup.term_set_query(self._schema, "provider", sorted(scopes))
            parts.append((Occur.Must, Lookup.const_score_query(allowed, 0.0)))
        return Lookup.boolean_query(parts)

    def _clause(self, clause: Clause) -> Any:
        if clause.kind in (Kind.WORD, Kind.PHRASE):
            return self._text(clause, tuple(name for name, _ in TEXTS))
        if clause.kind is Kind.TITLE:
            return self._text(clause, ("title",))
        if clause.kind is Kind.SINCE:
            found = Lookup.range_query(self._schema, "date", FieldType.Unsigned, lower_bound=clause.since)
        else:
            field = _FIELDS[clause.kind]
            found = self._term(field, clause.text)
        return Lookup.const_score_query(found, 0.0)

    def _words(self, text: str) -> list[str]:
        """As they are indexed."""
        found: list[str] = self._analyzer.analyze(fold(text))
        return found

    def _text(self, clause: Clause, fields: Sequence[str]) -> Any:
        """A word or phrase in any of these fields."""
        words = self._words(clause.text)
        if not words:
            return Lookup.empty_query()
        parts = []
        for name, weight in TEXTS:
            if name in fields:
                if len(words) == 1:
                    part = Lookup.term_query(self._schema, name, words[0], index_option="freq")
                else:
                    part = Lookup.phrase_query(self._schema, name, words)
                parts.append((Occur.Should, part if weight == 1.0 else Lookup.boost_query(part, weight)))
        return Lookup.boolean_query(parts)

    # Misspelt words.

    def _suggestion(self, searcher: Any, query: Query, scopes: Scopes, total: int) -> str:
        """The query with words put right that are hardly found; empty: that finds no more."""
        end = thread_time() + SUGGEST_SECONDS
        text, shift, looked_for = query.text, 0, 0
        clauses = []
        for clause in query.clauses:
            better = ""
            if not clause.negated and looked_for < _SUGGESTED_WORDS_MAX and self._is_rare(searcher, clause, scopes):
                looked_for += 1
                better = self._better(searcher, clause, scopes, lambda: thread_time() < end)
            clauses.append(clause._replace(text=better) if better else clause)
            if better:
                text = text[: clause.begin + shift] + better + text[clause.end + shift :]
                shift += len(better) - (clause.end - clause.begin)
        if text == query.text or searcher.search(self._lookup(clauses, scopes), 1).count <= total:
            return ""
        return text

    def _is_rare(self, searcher: Any, clause: Clause, scopes: Scopes) -> bool:
        """Whether it is one word that is hardly found, and could be misspelt."""
        if clause.kind not in (Kind.WORD, Kind.TITLE) or len(words := self._words(clause.text)) != 1:
            return False
        if len(words[0]) < 3 or any(map(str.isdigit, words[0])):
            return False
        return bool(searcher.search(self._lookup([clause], scopes), 1).count <= SUGGEST_UP_TO)

    def _better(self, searcher: Any, clause: Clause, scopes: Scopes, in_time: Callable[[], bool]) -> str:
        """A word that is spelt like this one and may be found more often; empty: there is none.

        :param in_time: whether there is time left to look for it.
        """
        [word] = self._words(clause.text)
        distance = 1 if len(word) < 6 else 2
        # Pages with a word like it, of those that may be seen: what they have is their most frequent one.
        near = [
            (Occur.Should, Lookup.fuzzy_term_query(self._schema, name, word, distance=distance))
            for name in ("title", "text")
        ]
        parts = [(Occur.Must, Lookup.boolean_query(near))]
        if scopes is not None:
            parts.append((Occur.Must, Lookup.term_set_query(self._schema, "provider", sorted(scopes))))
        found = searcher.search(Lookup.boolean_query(parts), _SAMPLE).hits

        def words_of(address: Any) -> set[str]:
            document = searcher.doc(address)
            title = json.loads(document.get_first("record")).get("title", "")
            return {*self._words(title), *self._words(_original(document)[:_SAMPLE_CHARS])}

        return nearest(word, (words_of(address) for _, address in found), distance, in_time)


_FIELDS = {Kind.SITE: "within", Kind.HOST: "site", Kind.TYPE: "type", Kind.LANGUAGE: "language"}
_KINDS = ("page", "unread", "hidden", "missing")


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Whatever tantivy raises while an index is read is damage, but for what the system refuses: that may pass.

    :raises OSError: such as too many open files, or no permission: the index may be whole.
    """
    try:
        yield
    except BaseException as error:
        if _is_refused(error):
            raise OSError(f"the index in {folder} cannot be read now: {error}") from error
        if is_tantivys(error):
            other = isinstance(error, ValueError) and (OTHER_VERSION in str(error) or _OTHER_SCHEMA in str(error))
            why = OTHER_VERSION if other else error
            raise (OtherVersion if other else IndexDamaged)(f"the index in {folder} cannot be read: {why}") from error
        raise


def _is_refused(error: BaseException) -> bool:
    """Whether the system refuses to read; a file that is missing is damage.  tantivy says the system's error in its
    message only."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno != errno.ENOENT
    code = _SYSTEM_CODE.search(str(error)) if is_tantivys(error) else None
    return code is not None and parse_number(code[1], INT64_MAX) != errno.ENOENT


def is_tantivys(error: BaseException) -> bool:
    """Whether it comes from tantivy: its errors are ValueErrors, its faults PanicExceptions."""
    return isinstance(error, (ValueError, OSError, RuntimeError)) or type(error).__name__ == "PanicException"


def _hit(document: Any, snippets: Any, score: float) -> Hit:
    record = json.loads(document.get_first("record"))
    original = _original(document)
    return Hit(
        record["url"],
        record["title"],
        _snippet(original, snippets),
        score,
        record["key"],
        record["date"],
        record["type"],
        record["site"],
        record["language"],
        record["provider"],
        record["browsable"],
        record.get("has_copy", True),
    )


def _original(document: Any) -> str:
    """The text of a page, as it came."""
    return bytes(document.get_first("original") or b"").decode()


def _snippet(original: str, snippets: Any) -> Snippet:
    """The best part of a text, as it came."""
    folded = fold(original)
    document = tantivy.Document()
    document.add_text("text", folded)
    found = snippets.snippet_from_doc(document)
    part = found.fragment()
    marks = tuple((each.start, each.end) for each in found.highlighted())
    if marks:
        begin = folded.find(part)
        if not part.isascii():
            marks = _in_characters(part, marks)
        places = Places(original)
        first, last = places.place(begin), places.place(begin + len(part))
        marks = _joined((places.place(begin + at) - first, places.place(begin + to) - first) for at, to in marks)
    else:
        first, last = 0, min(len(original), SNIPPET_CHARS)
    before, behind = original[max(0, first - _NEAR_CHARS) : first], original[last:][:_NEAR_CHARS]
    return Snippet(original[first:last], marks, any(map(str.isalnum, before)), any(map(str.isalnum, behind)))


def _joined(marks: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Those that touch become one."""
    found: list[tuple[int, int]] = []
    for begin, end in marks:
        if found and found[-1][1] == begin:
            begin = found.pop()[0]
        found.append((begin, end))
    return tuple(found)


def _in_characters(text: str, marks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Places in the UTF-8 of a text as places in the text."""
    data = text.encode()
    return tuple((len(data[:begin].decode()), len(data[:end].decode())) for begin, end in marks)
