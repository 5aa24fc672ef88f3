"""What all roles with a database tell of themselves in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from zope.interface import implementer

from lcc.interfaces import IRoleMetrics
from lcc.model.metrics import Condition, Reading
from lcc.storage.database.metrics import DatabaseCounts
from lcc.storage.database.probe import DatabaseProbe

Engine = TypeVar("Engine")


@implementer(IRoleMetrics)
class DatabaseRoleMetrics(Generic[Engine]):
    """Metrics and conditions of a role that cannot do its work without its database.

    A role gives its ``role``, :meth:`role_readings` and :meth:`role_conditions`.

    :param database: what is counted of its database.
    :param probe: whether that answers.
    """

    role: ClassVar[str]

    def __init__(self, engine: Engine, database: DatabaseCounts, probe: DatabaseProbe) -> None:
        self._engine = engine
        self._database = database
        self._probe = probe
        self.background: Sequence[Any] = (probe,)

    def readings(self) -> Iterator[Reading]:
        """As :class:`lcc.interfaces.IRoleMetrics` says: the role's, then its database's."""
        yield from self.role_readings()
        yield from self._database.readings(self.role)

    def conditions(self) -> Iterator[Condition]:
        """As :class:`lcc.interfaces.IRoleMetrics` says: its database answers, then the role's."""
        yield self._probe.condition()
        yield from self.role_conditions()

    def role_readings(self) -> Iterator[Reading]:
        """What the role's own metrics show now."""
        raise NotImplementedError

    def role_conditions(self) -> Iterator[Condition]:
        """What the role needs beside its database; by default nothing."""
        return iter(())
