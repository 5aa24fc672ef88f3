"""What ``lcc-admin fsck`` looks at in the index of the search server: does it have the pages of the cache?

It is exact, also beside a working LCC: the index is looked at as it was committed last, and says up to which change
it goes; what differs is nothing, if its row has changed behind that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from lcc.commands.errors import Failed
from lcc.config import Config
from lcc.model import CachedUrl
from lcc.model.states import CACHED
from lcc.roles.access import AccessDenied, check_access
from lcc.roles.cu.tokens import TokenError, parse_token
from lcc.search.folders import mebibytes, size_of
from lcc.search.interfaces import DAMAGED as KEPT
from lcc.search.interfaces import INDEX, OLD
from lcc.storage.database.database import BlockingDatabase
from lcc.storage.views.selected import Selection, page_by_key, url

SEE_USER = "run this as the user of lcc-search, on its machine, and see the limit of open files"
STRAY = "stray"
"""What is no fault."""
UNINDEXED, OUTDATED, SURPLUS, DAMAGED = "unindexed", "outdated", "surplus", "index"
INDEX_FAULTS = (UNINDEXED, OUTDATED, SURPLUS, DAMAGED)
"""A page of the cache that the index does not have, or not as it is; one that the cache does not have; the index
cannot be read."""
_PREFIX_DIGITS = 2


class IndexFault(NamedTuple):
    """A page that is not in the index as in the cache.

    :ivar kind: one of :data:`INDEX_FAULTS`, or :data:`STRAY`.
    :ivar text: for :data:`DAMAGED` and :data:`STRAY`, what it is.
    """

    kind: str
    key: str = ""
    pid: int | None = None
    curl: str = ""
    text: str = ""


def index_folder(config: Config) -> Path | None:
    """Where the index of the search server of this machine is; None: there is none."""
    folder = config.under_home(config.search.folder) / INDEX
    return folder if config.search.listen and (folder / "meta.json").is_file() else None


def beside_index(config: Config) -> Iterator[IndexFault]:
    """What is left of former indexes."""
    folder = config.under_home(config.search.folder)
    for name, why in ((OLD, "lcc-search removes it when it starts"), (KEPT, "remove it when nobody needs it")):
        path = folder / name
        with suppress(FileNotFoundError):
            text = f"{path}: {mebibytes(size_of(path))} of a former index; {why}"
            yield IndexFault(STRAY, text=text)


def compare_index(config: Config, folder: Path, database: BlockingDatabase) -> Iterator[IndexFault]:
    """What the index does not have as the cache does, in the order of keys."""
    # Late: they need the extra.
    from lcc.search.checksums import damage
    from lcc.search.index import TextIndex
    from lcc.search.interfaces import IndexDamaged

    fault = ""
    try:
        fault = damage(folder)
        index = TextIndex(folder)
        upto = parse_token(index.state.token).number if index.state.complete else 0
        providers = searched_providers(config, database)
    except (IndexDamaged, TokenError) as error:
        fault = fault or str(error)
    except OSError as error:
        raise Failed(f"cannot read the index of the search: {error}", SEE_USER) from None
    except AccessDenied as error:
        raise Failed(f"[search] token_file: {error}", "write a token of lcc-admin user add there") from None
    if fault:
        yield IndexFault(DAMAGED, text=fault)
        return
    rows = _readable(database, Selection(providers))
    row = next(rows, None)
    for prefix in map("".join, product("0123456789abcdef", repeat=_PREFIX_DIGITS)):
        for key, change in index.versions(prefix):
            while row is not None and row.key.hex() < key:
                yield from _differs(database, row.key, None, upto, providers)
                row = next(rows, None)
            if row is not None and row.key.hex() == key:
                if row.change != change:
                    yield from _differs(database, row.key, change, upto, providers)
                row = next(rows, None)
            else:
                yield from _differs(database, bytes.fromhex(key), change, upto, providers)
    while row is not None:
        yield from _differs(database, row.key, None, upto, providers)
        row = next(rows, None)


def searched_providers(config: Config, database: BlockingDatabase) -> frozenset[int] | None:
    """Whose pages the search server may read; None: everybody's."""
    name = config.search.token_file
    if not name:
        return None
    token = config.under_home(name).read_text(encoding="ascii").partition("\n")[0].strip()
    return database.interact(check_access, token, "nothing").providers


def _readable(database: BlockingDatabase, selection: Selection) -> Iterator[CachedUrl]:
    """The cached rows that belong into an index."""
    from lcc.search.texts import TYPES

    after: bytes | None = b""
    while after is not None:
        page = database.interact(page_by_key, selection, after)
        after = page.after
        for row in page.rows:
            if row.mimetype in TYPES:
                yield row


def _differs(
    database: BlockingDatabase, key: bytes, change: int | None, upto: int, providers: frozenset[int] | None
) -> Iterator[IndexFault]:
    """The fault of a page that differs, unless its row has changed since.

    :param change: that the index has; None: it does not have the page.
    """
    from lcc.search.texts import TYPES

    row: Any = database.interact(url, key)
    if row is None:
        yield IndexFault(SURPLUS, key.hex())
        return
    if providers is not None and row.pid not in providers:
        if change is not None:
            yield IndexFault(SURPLUS, key.hex(), row.pid, row.curl)
        return
    if row.change > upto or row.change == change:
        return
    if row.state != CACHED or row.mimetype not in TYPES:
        if change is not None:
            yield IndexFault(SURPLUS, key.hex(), row.pid, row.curl)
        return
    yield IndexFault(UNINDEXED if change is None else OUTDATED, key.hex(), row.pid, row.curl)
