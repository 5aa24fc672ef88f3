"""How a setting is declared."""

from __future__ import annotations

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
) -> Any:
    """Declare one setting of a section.

    :param secret: its value may hold a password: no message shows it.
    """
    metadata = {"meaning": meaning, "unit": unit, "minimum": minimum, "maximum": maximum, "secret": secret}
    return attrs.field(default=default, metadata=metadata, repr=not secret)
