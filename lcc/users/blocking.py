"""The former name of :mod:`lcc.client.blocking`."""

from __future__ import annotations

from lcc.client.blocking import (
    Cache,
    CacheError,
    Content,
    CutOff,
    Gone,
    Package,
    Refused,
    Rows,
    StartAgain,
    Unavailable,
)

__all__ = [
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
]
