"""Options of roles whose modules are loaded once their configuration is known (:mod:`lcc.services.lean`)."""

from __future__ import annotations

from lcc.services.common import RoleOptions


class UnsOptions(RoleOptions):
    """The options of ``lcc-uns``."""

    role = "uns"
    summary = "The update notification server of an LCC: receives sets from content providers."


class QmOptions(RoleOptions):
    """The options of ``lcc-qm``."""

    role = "qm"
    summary = "The queue manager of an LCC: decides what is fetched when."


class SchedulerOptions(RoleOptions):
    """The options of ``lcc-scheduler``."""

    role = "scheduler"
    summary = "The scheduler of an LCC: what is done periodically, and when."
