"""The index, as the role, its pages and the commands know it."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from lcc.search.values import IndexChange, Query, Results, Scopes

INDEX, REBUILD, LOCK = "index", "rebuild", "lock"
"""In ``[search] folder``: the index; a file with which ``lcc-admin search rebuild`` asks for a new one; one that the
search server that writes there has locked, wherever its home is."""
DAMAGED, OLD = "index.damaged", "index.old"
"""Beside the index: the last one that was damaged, kept for who wants to know why; one that is being thrown away."""


class IndexDamaged(Exception):
    """The index cannot be read: it is damaged, or of another version.  It has to be built anew."""


class OtherVersion(IndexDamaged):
    """It is whole, and of another version of the LCC."""


class BadPlace(ValueError):
    """``after`` is none that a search gave, or further down than hits are given."""


class ISearchIndex(Interface):
    """An index of pages that can be searched while it changes."""

    documents: int = Attribute("Pages that can be found.")
    size_bytes: int = Attribute("Of its files.")
    token: str = Attribute("Of lcc-cu: up to where the changes are in the index; empty: none yet.")

    def search(query: Query, scopes: Scopes, limit: int, after: str = "") -> Deferred[Results]:
        """The hits of a query, among pages of these providers.

        :param limit: hits at most.
        :param after: :attr:`Results.next` of the hits before; empty: the first.
        :raises BadPlace: (as the Deferred's failure) ``after`` is none.
        """

    def apply(changes: Sequence[IndexChange], token: str, complete: bool = False) -> Deferred[None]:
        """Apply changes, the last one of a page last, and the token behind them, all or nothing; they are found, and
        survive a crash, when the Deferred fires.

        :param token: empty: they wait for the next call that has one.
        :param complete: with these, all pages of the cache were read.
        :raises OSError: (as its failure) the disk is full, or broken: nothing was applied; try again.
        """
