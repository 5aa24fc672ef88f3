"""How a setting is declared."""

from __future__ import annotations

from typing import Any

import attrs

METRICS = "endpoint of the metrics of this role as a process of its own: HTTP (doc/metrics.md); empty: none"
MANHOLE = "endpoint of the console of this role: ssh, on loopback or a UNIX socket; empty: none"


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
