"""Sub-LCCs, and what they report."""

from __future__ import annotations

from typing import Any

from lcc.model.frontend.places import SubLcc, SubState, Vitals

NOW = 1_700_000_000


def sublcc(number: int, **more: Any) -> SubLcc:
    """Sub-LCC a, b, c …, with the provider ids 1-100, 101-200, 201-300 …"""
    values = {
        "subid": number,
        "name": chr(ord("a") + number - 1),
        "state": SubState.OPEN,
        "uns": (f"tcp:127.0.0.1:{9000 + number}",),
        "proxy_protocol": True,
        "notifiers": "",
        "content": "",
        "database": f"sqlite:/sub{number}.db",
        "first_pid": 100 * (number - 1) + 1,
        "last_pid": 100 * number,
        "first_machine": 10 * (number - 1) + 1,
        "last_machine": 10 * number,
    }
    return SubLcc(**{**values, **more})


def vitals(number: int, files: int = 0, space_bytes: int = 0, time: int = NOW) -> Vitals:
    return Vitals(number, time, "epoch", 1, files, space_bytes, 0, 0)
