"""The former name of :mod:`lcc.roles.cu.query`, whose :data:`FIELDS` were documented."""

from __future__ import annotations

from lcc.roles.cu.query import FIELDS

__all__ = ["FIELDS"]
