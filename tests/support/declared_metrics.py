"""All metrics that are declared anywhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from lcc.model.metrics import Metric

ROOT = Path(__file__).parents[2]
PROCESS = {
    "process_cpu_seconds_total": ("counter", "CPU time used by the process"),
    "process_resident_memory_bytes": ("gauge", "Resident memory (RSS)"),
    "process_virtual_memory_bytes": ("gauge", "Virtual memory"),
    "process_start_time_seconds": ("gauge", "Start time, in seconds since 1970"),
    "process_open_fds": ("gauge", "Open file descriptors"),
    "process_max_fds": ("gauge", "Maximum number of open file descriptors"),
}
"""What prometheus_client tells of a process, and what that means."""


def declared() -> dict[str, list[Metric]]:
    """File -> its metrics, in their order."""
    found: dict[str, list[Metric]] = {}
    for path in sorted((ROOT / "lcc").rglob("*.py")):
        if path.stem not in ("metrics", "watched", "counts") or "model" in path.parts:
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = import_module(name)
        metrics = [value for value in vars(module).values() if isinstance(value, Metric)]
        if metrics:
            found[name] = metrics
    return found


def all_metrics() -> list[Metric]:
    """All of them."""
    return [metric for metrics in declared().values() for metric in metrics]


def row(metric: Metric) -> str:
    """Its row in doc/metrics.md."""
    kind = {"info": "gauge", "gaugehistogram": "gauge histogram"}.get(metric.kind.value, metric.kind.value)
    labels = ", ".join(metric.labels)
    return f"| `{metric.series_name}` | {kind} | {labels} | {metric.meaning} |"
