"""All figures that are declared anywhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from lcc.model.metrics import Figure

ROOT = Path(__file__).parents[2]
PROCESS = {
    "process_cpu_seconds_total": ("counter", "CPU that the process has used"),
    "process_resident_memory_bytes": ("gauge", "Memory that it has (RSS)"),
    "process_virtual_memory_bytes": ("gauge", "Address space that it has"),
    "process_start_time_seconds": ("gauge", "When it was started, seconds since 1970"),
    "process_open_fds": ("gauge", "Files and connections that it has open"),
    "process_max_fds": ("gauge", "Files and connections that it may have open"),
}
"""What prometheus_client tells of a process, and what that means."""


def declared() -> dict[str, list[Figure]]:
    """File -> its figures, in their order."""
    found: dict[str, list[Figure]] = {}
    for path in sorted((ROOT / "lcc").rglob("*.py")):
        if path.stem not in ("metrics", "watched", "counts") or "model" in path.parts:
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = import_module(name)
        figures = [value for value in vars(module).values() if isinstance(value, Figure)]
        if figures:
            found[name] = figures
    return found


def all_figures() -> list[Figure]:
    """All of them."""
    return [figure for figures in declared().values() for figure in figures]


def row(figure: Figure) -> str:
    """Its row in doc/metrics.md."""
    kind = {"info": "gauge", "gaugehistogram": "gauge histogram"}.get(figure.kind.value, figure.kind.value)
    labels = ", ".join(figure.labels)
    return f"| `{figure.series_name}` | {kind} | {labels} | {figure.meaning} |"
