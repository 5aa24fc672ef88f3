"""What a search found, as JSON."""

from __future__ import annotations

from typing import Any

from lcc.search.values import Facet, Hit, Query, Results

FIELDS = {
    "query": "as it was asked",
    "total": "hits in all",
    "hits": "the best, or youngest, of them",
    "next": "the value of after for the hits behind these; null: there are none",
    "suggestion": "the query with misspelt words put right; null: there is nothing better",
    "sites": "sites with the most hits: name, count; on the first page only",
    "types": "types with the most hits: name, count; on the first page only",
    "complete": "false: the index is being built, and not all pages are in it yet",
}
HIT_FIELDS = {
    "url": "where people find it",
    "title": "plain text; may be empty",
    "snippet": "a part of its text, plain",
    "marks": "[begin, end] of each word in it that was searched for",
    "score": "higher fits better",
    "key": "names the page in /content/KEY of lcc-cu",
    "date": "when it was modified, or else fetched; seconds since 1970",
    "type": "html, pdf, text",
    "site": "its host",
    "language": "such as en; may be empty",
    "provider": "the provider's id",
    "browsable": "false: url is not for browsers",
    "has_copy": "false: the page asks that no copy of it is shown",
}


def results_json(query: Query, results: Results, complete: bool) -> dict[str, Any]:
    """The object with :data:`FIELDS`."""
    return {
        "query": query.text,
        "total": results.total,
        "hits": [hit_json(hit) for hit in results.hits],
        "next": results.next or None,
        "suggestion": results.suggestion or None,
        "sites": [_facet(each) for each in results.sites],
        "types": [_facet(each) for each in results.types],
        "complete": complete,
    }


def hit_json(hit: Hit) -> dict[str, Any]:
    """An object with :data:`HIT_FIELDS`."""
    return {
        "url": hit.url,
        "title": hit.title,
        "snippet": hit.snippet.text,
        "marks": [list(mark) for mark in hit.snippet.marks],
        "score": round(hit.score, 4),
        "key": hit.key,
        "date": hit.date,
        "type": hit.type,
        "site": hit.site,
        "language": hit.language,
        "provider": hit.provider,
        "browsable": hit.browsable,
        "has_copy": hit.has_copy,
    }


def _facet(facet: Facet) -> dict[str, Any]:
    return {"name": facet.name, "count": facet.count}
