"""Hypothesis without deadlines: a loaded machine is slow, not wrong."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("lcc", deadline=None)
settings.load_profile("lcc")
