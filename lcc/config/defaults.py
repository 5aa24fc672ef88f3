"""``lcc-admin config --defaults``: every setting as a commented TOML file."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import attrs

from lcc.config.root import Config


def describe_defaults() -> str:
    """Every setting with its meaning, unit, bounds and default, as a commented TOML file."""
    lines = ["# Every setting of lcc.toml, with its default.", ""]
    tables: list[tuple[str, Any]] = []
    for field in attrs.fields(Config):
        if field.metadata.get("internal"):
            continue
        kind = get_type_hints(Config)[field.name]
        if attrs.has(kind):
            tables.append((field.name, kind))
        else:
            lines += _describe(field)
    for name, kind in tables:
        lines += ["", f"# {(kind.__doc__ or '').strip()}", f"[{name}]"]
        for field in attrs.fields(kind):
            lines += _describe(field)
    return "\n".join(lines) + "\n"


def _describe(field: Any) -> list[str]:
    metadata = field.metadata
    notes = [note for note in (metadata["unit"], _bounds(metadata["minimum"], metadata["maximum"])) if note]
    limits = f" ({', '.join(notes)})" if notes else ""
    return [f"# {metadata['meaning']}{limits}", f"{field.name} = {_toml(field.default)}"]


def _bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f"{_number(minimum)} to {_number(maximum)}"
    if minimum:
        return f"at least {_number(minimum)}"
    return "" if maximum is None else f"at most {_number(maximum)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(str(value))
