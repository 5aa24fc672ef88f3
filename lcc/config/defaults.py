"""Prints every setting."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import attrs

from lcc.config.whole import Config


def describe_defaults() -> str:
    """Every setting with its default, unit, bounds and meaning, as a TOML file with comments."""
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
    notes = [metadata["meaning"]]
    if metadata["unit"]:
        notes.append(f"in {metadata['unit']}")
    if metadata["minimum"] is not None:
        notes.append(f"at least {metadata['minimum']:g}")
    if metadata["maximum"] is not None:
        notes.append(f"at most {metadata['maximum']:g}")
    return [f"# {'; '.join(notes)}", f"{field.name} = {_toml(field.default)}"]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(str(value))
