"""What each role tells of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zope.interface import Attribute, Interface

from lcc.model.metrics import Condition, Reading


class IRoleMetrics(Interface):
    """What a role tells of itself: to Prometheus, to the operator's supervisor, to whoever looks
    (``RoleService.metrics``).  Both only read, at once, in the reactor's thread, and take no longer with a hundred
    thousand providers than with ten."""

    background: Sequence[Any] = Attribute(
        "What has to be looked at beforehand: objects with start() and stop(), called where the metrics are wanted."
    )

    def readings() -> Iterable[Reading]:
        """What its metrics show now."""

    def conditions() -> Iterable[Condition]:
        """What must hold so that it can do its work, the fulfilled ones, too."""
