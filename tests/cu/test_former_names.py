"""Programs that were written when the clients were in ``lcc.users`` still run."""

from __future__ import annotations

from importlib import import_module

import pytest

FORMER = {
    "lcc.users.addresses": ("lcc.client.addresses", ["AddressError"]),
    "lcc.users.blocking": (
        "lcc.client.blocking",
        [
            "Cache",
            "CacheError",
            "Content",
            "CutOff",
            "Gone",
            "Package",
            "Refused",
            "Rows",
            "StartAgain",
            "Unavailable",
        ],
    ),
    "lcc.users.client": ("lcc.client.cache", ["CacheClient", "CacheError", "CutOff", "RemoteContent", "RowStream"]),
    "lcc.users.content": ("lcc.client.content", ["Content", "ContentClient", "ContentGone", "ContentUnavailable"]),
    "lcc.users.query": ("lcc.roles.cu.query", ["FIELDS"]),
}
"""Module that doc/api.md of 0.1.0 named -> (where it is now, what programs import from it)."""


@pytest.mark.parametrize("former", sorted(FORMER))
def test_the_former_names_are_the_same_things(former: str) -> None:
    now, names = FORMER[former]
    for name in names:
        assert getattr(import_module(former), name) is getattr(import_module(now), name), name
        assert name in import_module(former).__all__
