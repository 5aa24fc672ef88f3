"""Roles that do without TLS where none of their wires is over TLS.

Twisted loads OpenSSL wherever it is installed: twelve megabytes, which a role on UNIX sockets and loopback never
uses.  It works as well where there is none.  So the modules of these roles, and with them Twisted's reactor, are
loaded only once the configuration is known; and where that names no wire over TLS, OpenSSL counts as not installed in
this process.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.python.reflect import namedAny

from lcc.services.common import RoleOptions, tidy_memory
from lcc.services.options import QmOptions, SchedulerOptions, UnsOptions

_PLAIN = frozenset({"unix", "tcp", "tcp4", "tcp6", "systemd"})
"""Kinds of endpoints that need no TLS."""


class LeanRole:
    """In place of the module of a role, for ``twistd``."""

    def __init__(self, module: str, options: type[RoleOptions]) -> None:
        self.module = module
        self.Options = options

    def makeService(self, options: RoleOptions) -> Any:
        """As that of the module, which is loaded now."""
        if not _needs_tls(options.config, options.role):
            _leave_out_tls()
        make = namedAny(self.module).makeService
        tidy_memory()
        return make(options)


def _needs_tls(config: Any, role: str) -> bool:
    from lcc.transport.wires import WIRES

    if getattr(config, role).manhole:
        return True  # SSH has its own needs
    texts = [text for wire in WIRES.values() if wire.setting.startswith(f"{role}.") for text in wire.texts(config)]
    return any(text.partition(":")[0] not in _PLAIN for text in texts)


def _leave_out_tls() -> None:
    if "OpenSSL" not in sys.modules:
        sys.modules["OpenSSL"] = None  # type: ignore[assignment]  # as the documentation of sys.modules says


uns = LeanRole("lcc.services.uns", UnsOptions)
qm = LeanRole("lcc.services.qm", QmOptions)
scheduler = LeanRole("lcc.services.scheduler", SchedulerOptions)
