"""What a fetch does, step by step, for a person who looks on (``lcc-admin fetch``).

A robot has no watcher: a step then costs nothing but the test for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lcc.model import FetchStep


class Steps:
    """Tells the steps of a fetcher to whoever watches.

    :param clock: the reactor or a clock.
    :ivar watch: is told; None: nobody looks on.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.watch: Callable[[FetchStep], None] | None = None

    def tell(self, name: str, detail: str = "", lines: Sequence[str] = ()) -> None:
        """This has just happened; the parameters are the fields of a FetchStep."""
        if self.watch is not None:
            self.watch(FetchStep(name, self._clock.seconds(), detail, tuple(lines)))
