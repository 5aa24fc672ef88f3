"""How a setting is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

METRICS = "HTTP endpoint of the metrics of this role when it is its own process (doc/metrics.md); empty: off"
MANHOLE = "endpoint of this role's console (ssh), on loopback or a UNIX socket; empty: off"


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    secret: bool = False,
    or_one: bool = False,
    converter: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare one setting of a section.

    :param secret: its value may hold a password: no message shows it.
    :param or_one: of a list: a string stands for a list of it; an empty one for an empty list.
    :param converter: makes the value of what is configured.
    """
    bounds = {"unit": unit, "minimum": minimum, "maximum": maximum}
    metadata = {"meaning": meaning, **bounds, "secret": secret, "or_one": or_one}
    return attrs.field(default=default, metadata=metadata, repr=not secret, converter=converter)
