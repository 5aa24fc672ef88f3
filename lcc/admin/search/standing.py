"""What ``lcc-admin why`` says of cached pages: whether the search of this machine finds them, or why not."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, TypedDict

from lcc.admin.search.comparison import index_folder, searched_providers
from lcc.config import Config
from lcc.model.states import CACHED
from lcc.roles.access import AccessDenied
from lcc.roles.cu.tokens import TokenError, parse_token
from lcc.storage.database.database import BlockingDatabase

_POLLED = "polled"


class Searched(TypedDict):
    """Whether a search finds a page.

    :ivar found: as it is in the cache, or as it was.
    :ivar reason: why not, or what is missing; empty: all is well.
    """

    found: bool
    reason: str


def add_searched(answer: dict[str, Any], config: Config, database: BlockingDatabase) -> None:
    """Say of each cached page of an answer (:func:`lcc.insight.why.explain`) whether it is found, as ``search``; of
    none, if there is no search here."""
    rows = [
        (provider["pid"], view["cached"])
        for provider in answer["providers"]
        for view in provider["views"]
        if view["cached"] is not None and view["cached"]["state"] == CACHED
    ]
    if not config.search.listen or not rows:
        return
    for row, searched in zip(rows, _searched(rows, config, database), strict=True):
        row[1]["search"] = searched


def _searched(rows: list[tuple[int, Any]], config: Config, database: BlockingDatabase) -> Iterable[Searched]:
    folder = index_folder(config)
    if folder is None:
        reason = f"{config.under_home(config.search.folder)} has no index: is lcc-search running, on this machine?"
        return [Searched(found=False, reason=reason)] * len(rows)
    if find_spec("tantivy") is None:
        reason = "the index cannot be read here: tantivy is not installed (pip install 'dist/lcc-….whl[search]')"
        return [Searched(found=False, reason=reason)] * len(rows)
    # Late: they need the extra.
    from lcc.search.index import TextIndex
    from lcc.search.interfaces import IndexDamaged

    try:
        providers = searched_providers(config, database)
        index = TextIndex(folder)
        upto = parse_token(index.state.token).number if index.state.token else 0
        return [
            _of_row(row, index, upto, config.search.page_bytes)
            if providers is None or pid in providers
            else Searched(found=False, reason="[search] token_file is not for this provider")
            for pid, row in rows
        ]
    except OSError as error:
        return [Searched(found=False, reason=f"the index cannot be read: {error}")] * len(rows)
    except AccessDenied as error:
        return [Searched(found=False, reason=f"[search] token_file: {error}")] * len(rows)
    except (IndexDamaged, TokenError) as error:
        return [Searched(found=False, reason=f"{error} (lcc-admin search rebuild)")] * len(rows)


def _of_row(row: dict[str, Any], index: Any, upto: int, page_bytes: int) -> Searched:
    from lcc.search.texts import TYPES

    standing = index.standing(row["key"])
    if standing is not None and standing.kind == "page":
        later = f" as it was at change {standing.change}: {_yet(upto)}" if standing.change < row["change"] else ""
        if standing.fault:
            return Searched(found=True, reason=f"only by site, type and date{later}: no text: {standing.fault}")
        cut = (row["len"] or 0) > page_bytes
        reason = f"only by its first {page_bytes:,} bytes ([search] page_bytes)" if cut else ""
        return Searched(found=True, reason=later.strip() or reason)
    if row["source"] == _POLLED:
        reason = "it is only polled, for feeds, sitemaps or robots.txt"
    elif row["mimetype"] not in TYPES:
        reason = f"{row['mimetype'] or 'no type'} has no text that is read"
    elif standing is not None and standing.kind == "hidden":
        reason = "it asks not to be indexed (robots: noindex)"
    elif standing is not None:
        reason = "the cache could not give its content; it is asked for once a minute"
    elif row["change"] > upto or not index.state.complete:
        reason = f"not yet: {_yet(upto)}"
    else:
        reason = "the index lacks it (lcc-admin fsck, lcc-admin search rebuild)"
    return Searched(found=False, reason=reason)


def _yet(upto: int) -> str:
    return f"the index goes up to change {upto}" if upto else "the index is being built"
