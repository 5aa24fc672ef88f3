"""Asking metrics ports, as Prometheus and supervisors do."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self._path))


def ask(where: Path | int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, header and body of one answer.

    :param where: a UNIX socket, or a port on loopback.
    """
    connection = _UnixConnection(where) if isinstance(where, Path) else HTTPConnection("127.0.0.1", where, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def health(where: Path | int, path: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Status, and of each role the conditions that do not hold, by their names."""
    status, _, body = ask(where, path)
    found = json.loads(body)
    assert found["ok"] == (status == 200) and found["reactor_lag_seconds"] >= 0
    return status, {
        role: {each["name"]: each for each in shown["conditions"] if not each["ok"]}
        for role, shown in found["roles"].items()
    }


class Scrape:
    """All metrics of one process.

    :ivar families: by name.
    """

    def __init__(self, where: Path | int, accept: str = "") -> None:
        status, headers, body = ask(where, "/metrics", Accept=accept)
        assert status == 200 and headers["cache-control"] == "no-store"
        parse = parse_openmetrics if "openmetrics" in headers["content-type"] else parse_text
        self.families: dict[str, Metric] = {family.name: family for family in parse(body.decode())}
        self.lines = body.count(b"\n")

    def value(self, series: str, **labels: str) -> float:
        """Of the one series with this name and (at least) these labels."""
        (found,) = self.values(series, **labels)
        return found

    def values(self, series: str, **labels: str) -> list[float]:
        """Of all of them."""
        return [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == series and labels.items() <= sample.labels.items()
        ]
