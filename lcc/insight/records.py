"""A row of the cache as content users get it: field names as in the seeds, everything filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lcc.model import CachedUrl, source_text
from lcc.model.headers import page_headers
from lcc.storage.disk.content_paths import content_path

SHOWN = (
    *("pid", "curl", "furl", "burl", "mimetype", "subtype", "md5", "len", "mtime"),
    *("fetched_time", "fetched_machineid", "fetched_fileid", "path", "change", "state", "source"),
)
"""The fields of :func:`as_record`, in this order."""
FIELDS = {
    "pid": "the provider's id",
    "key": "names the URL in /content/KEY",
    "curl": "the conceptual URL: the name of the thing, together with its mime type",
    "furl": "where it is fetched from",
    "fetched_url": "where redirects led from furl: links are relative to this; null: there were none",
    "burl": "what to show in a browser; null: it is not for browsing",
    "mimetype": "as the provider told",
    "subtype": "as the provider told; may be empty",
    "md5": "of the content",
    "len": "bytes of the content",
    "mtime": "Last-Modified, else as told; seconds since 1970",
    "charset": "of a text",
    "fetched_time": "seconds since 1970",
    "confirmed_time": "when it was fetched, or found unchanged, last; seconds since 1970",
    "fetched_machineid": "which machine keeps the content",
    "fetched_fileid": "which file of that machine",
    "change": "the number of its last change",
    "state": "deleted rows are only among changes",
    "source": "who names it, with commas between them: told, pushed, listed, feed, link, polled",
    "headers": "what the header of the response said of the page (Link, X-Robots-Tag, Content-Language): lines "
    "Name: value; null: nothing",
}
"""The fields of :func:`user_record`, in this order, and what each means."""
CACHED = "cached"
NOT_BROWSABLE = "-"


def as_record(url: CachedUrl, content: Path) -> dict[str, Any]:
    """The fields, ready for JSON, as they are shown on a host of the LCC.

    ``furl`` and ``burl`` are the conceptual URL where the provider gave none; ``burl`` is None where there is nothing
    to browse.  What belongs to the content (md5, len, mtime, fetched_*, path) is None for a deleted row.

    :param content: the content folder; ``path`` lies in it, on the machine ``fetched_machineid``.
    """
    record = user_record(url)
    file_id = record["fetched_fileid"]
    record["path"] = None if file_id is None else str(content / content_path(file_id))
    return {name: record[name] for name in SHOWN}


def user_record(url: CachedUrl) -> dict[str, Any]:
    """The fields as a content user elsewhere gets them: those of :func:`as_record`, without the path on this machine,
    and with ``key``, which names the URL in requests for its content."""
    cached = url.state == CACHED
    return {
        "pid": url.pid,
        "key": url.key.hex(),
        "curl": url.curl,
        "furl": url.furl or url.curl,
        "fetched_url": url.fetched_url if cached else None,
        "burl": None if url.burl == NOT_BROWSABLE else url.burl or url.curl,
        "mimetype": url.mimetype,
        "subtype": url.subtype,
        "md5": (url.md5 or None) if cached else None,
        "len": url.length if cached else None,
        "mtime": url.mtime if cached else None,
        "charset": (url.charset or None) if cached else None,
        "fetched_time": url.fetched_time if cached else None,
        "confirmed_time": url.confirmed_time if cached else None,
        "fetched_machineid": url.fetched_machineid if cached else None,
        "fetched_fileid": url.fetched_fileid if cached else None,
        "change": url.change,
        "state": url.state,
        "source": source_text(url.source) if cached else None,
        "headers": (page_headers(url.headers) or None) if cached else None,
    }
