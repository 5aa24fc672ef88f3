"""What the tests of the front end need."""

from __future__ import annotations

from tests.support.sublccs import NOW, sublcc, vitals

__all__ = ["NOW", "sublcc", "vitals"]
