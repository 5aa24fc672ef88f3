"""doc/metrics.md, the dashboard and the alerts name what there is, and all of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lcc.model.metrics import Kind, Metric
from tests.support.declared_metrics import PROCESS, ROOT, all_metrics, row

TEXT = (ROOT / "doc" / "metrics.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "etc" / "grafana-lcc.json").read_text(encoding="utf-8"))
ALERTS_FILE = ROOT / "etc" / "prometheus-alerts.yml"
ALERTS = [
    rule for group in yaml.safe_load(ALERTS_FILE.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
UNITS = ("seconds", "bytes")
_OTHER_UNITS = re.compile(r"_(ms|milliseconds|minutes|hours|days|kb|kib|mb|mib|percent)(_|$)")


def test_names_are_those_of_prometheus() -> None:
    metrics = all_metrics()
    assert len(metrics) > 100
    assert len({metric.name for metric in metrics}) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"lcc_[a-z][a-z_]*[a-z]", metric.name), metric
        assert not _OTHER_UNITS.search(metric.name), f"{metric.name}: units are seconds and bytes"
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_info")), metric
        assert metric.meaning and "|" not in metric.meaning and "\n" not in metric.meaning
        for unit in UNITS:
            if f"_{unit}" in metric.name:
                assert metric.name.endswith((f"_{unit}", f"_{unit}_max")) or metric.kind is Kind.COUNTER, metric


def test_the_document_tells_of_each_metric() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith(("| `lcc_", "| `process_"))]
    expected = [row(metric) for metric in all_metrics()]
    expected += [f"| `{name}` | {kind} |  | {meaning} |" for name, (kind, meaning) in PROCESS.items()]
    assert sorted(rows) == sorted(expected)


def series() -> dict[str, tuple[str, ...]]:
    """All names that a query may use -> their labels."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys([*PROCESS, "up"], ())
    for metric in all_metrics():
        found |= dict.fromkeys(_series_of(metric), metric.labels)
    return found


def _series_of(metric: Metric) -> list[str]:
    if metric.kind in (Kind.HISTOGRAM, Kind.GAUGE_HISTOGRAM):
        return [f"{metric.name}_{ending}" for ending in ("bucket", "count", "sum", "gcount", "gsum")]
    return [metric.series_name]


_NAME = re.compile(r"\b(?:lcc|process)_[a-z_]+|\bup\b")
_MATCHER = re.compile(r"([a-z_]+)\{([^}]*)\}")
_FROM_PROMETHEUS = {"job", "instance", "le"}


def faults_of(query: str) -> Iterator[str]:
    """What a query uses that there is not."""
    known = series()
    outside = re.sub(r'"[^"]*"', '""', query)
    for name in _NAME.findall(outside):
        if name not in known:
            yield f"there is no {name}"
    for name, matchers in _MATCHER.findall(outside):
        for label in re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in {*known.get(name, ()), *_FROM_PROMETHEUS}:
                yield f"{name} has no {label}"
    labels = {label for name in _NAME.findall(outside) for label in known.get(name, ())} | _FROM_PROMETHEUS
    for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", outside):
        yield from (f"nothing here has {label}" for label in re.split(r",\s*", names) if label not in labels)


def test_faults_in_queries_are_found() -> None:
    assert list(faults_of("lcc_nothing > 1")) == ["there is no lcc_nothing"]
    assert list(faults_of('lcc_ready{rule="qm"}')) == ["lcc_ready has no rule"]
    assert list(faults_of("sum by (rule) (lcc_ready)")) == ["nothing here has rule"]
    assert not list(faults_of('sum by (role) (lcc_ready{role="lcc_nothing", job=~"x"})'))
    assert list(faults_of("lcc_bot_fetch_seconds > 1")) and not list(faults_of("lcc_bot_fetch_seconds_bucket"))


def queries() -> Iterator[tuple[str, str]]:
    """Panel, expression."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def test_the_dashboard_shows_what_there_is() -> None:
    used: list[str] = []
    for title, query in queries():
        assert not list(faults_of(query)), (title, query)
        used += _NAME.findall(query)
    (job,) = [each for each in DASHBOARD["templating"]["list"] if each["name"] == "job"]
    assert not list(faults_of(job["definition"].replace("label_values(", "").replace(", job)", "")))
    for _, legend in (
        (panel["title"], t["legendFormat"]) for panel in DASHBOARD["panels"] for t in panel.get("targets", ())
    ):
        labels = {label for metric in all_metrics() for label in metric.labels} | _FROM_PROMETHEUS
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, legend
    # Nothing lies over anything else.
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert {title.partition(":")[0] for title in rows} >= {
        "UNS",
        "QM",
        "BOT-M",
        "BOT",
        "CU, RS",
        "Web monitor",
        "Database",
        "Processes",
    }
    assert len(used) > 60


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_each_alert_asks_for_what_there_is_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert not list(faults_of(rule["expr"])), rule["expr"]
    assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["summary"]
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {rule['alert']} |")]
    assert len(rows) == 1 and all(cell.strip() for cell in rows[0].strip("|").split("|")), rule["alert"]


def test_the_document_names_no_other_alerts() -> None:
    named = re.findall(r"^\| (Lcc\w+) \|", TEXT, re.MULTILINE)
    assert sorted(named) == sorted(rule["alert"] for rule in ALERTS)


def test_prometheus_accepts_the_alerts() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here (on Debian: the package prometheus)")
    done = subprocess.run(
        [program, "check", "rules", ALERTS_FILE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_understands_the_dashboard(tmp_path: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here (on Debian: the package prometheus)")
    rules = [{"record": f"query:{number}", "expr": query} for number, (_, query) in enumerate(queries())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run([program, "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout
