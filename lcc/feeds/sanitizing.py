"""Markup of strangers without scripts, as feedparser cleans it."""

from __future__ import annotations


def sanitize(markup: str, base: str) -> str:
    """HTML without scripts, styles and handlers, its links absolute.

    :param base: the URL of the document.
    """
    # feedparser has no public name for it; RSS and Atom pass through the same.
    from feedparser.sanitizer import _sanitize_html
    from feedparser.urls import resolve_relative_uris

    resolved = resolve_relative_uris(markup, base, "utf-8", "text/html")
    cleaned: str = _sanitize_html(resolved, "utf-8", "text/html")
    return cleaned
