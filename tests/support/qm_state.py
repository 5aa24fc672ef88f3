"""A healthy queue manager's state, as the web monitor reads it."""

from __future__ import annotations

from typing import Any

MACHINE = {
    "machine": 1,
    "name": "botm",
    "via": "",
    "content": "",
    "connected": True,
    "ready": True,
    "capacity": 32,
    "trouble": "",
    "paused": "",
    "orders": 3,
    "robots_count": 1,
    "refused": "",
    "robots_refused": "",
    "robots": [{"name": "bot", "capacity": 32, "busy": 3, "paused": False}],
}


STATE: dict[str, Any] = {
    "run": 1,
    "clock": 100.0,
    "interval": 5.0,
    "lease": 300.0,
    "database": "",
    "paused_since": None,
    "overload": "",
    "overload_since": None,
    "queue_rows": 7,
    "ports": {"UNSes": True},
    "capacity": 32,
    "orders_most": 64,
    "orders_free": 61,
    "orders_out": 3,
    "machines": [MACHINE],
    "centrals": [],
    "machines_connected": 1,
    "unses": ["uns"],
    "unses_connected": 1,
    "unses_paused": [],
    "absorb_waiting": 0,
    "providers_waiting": 0,
    "providers_active": 1,
    "awaited": [],
    "withheld": {"providers": 0, "pids": [], "sets_upto": 0},
    "host_turns": [],
    "rows_buffered": 7,
    "orders": [],
    "counts": dict.fromkeys(
        [
            *("sets_answered", "results_recorded", "orders_sent", "orders_lost", "leases_passed"),
            *("results_again", "orders_too_late", "orders_no_room", "orders_handed_back", "files_deleted"),
        ],
        0,
    ),
    "results": {"stored": 0, "unchanged": 0, "failed": 0, "wire_bytes": 0},
    "rates": {},
}
"""A healthy queue manager's state (:func:`lcc.roles.qm.maintenance.state.describe`; compared by a test)."""
