"""The former name of :mod:`lcc.client.content`."""

from __future__ import annotations

from lcc.client.content import Content, ContentClient, ContentGone, ContentUnavailable

__all__ = ["Content", "ContentClient", "ContentGone", "ContentUnavailable"]
