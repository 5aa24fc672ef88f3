"""The metrics port: metrics and health over HTTP.

``/metrics``
    All metrics, for Prometheus.
``/healthz``
    200: the process is well; 503: a new one is better.  Liveness: who restarts processes asks this.
``/readyz``
    200: it can do its work; 503: something is missing, and the JSON says what, and what to do.

None of them changes anything, asks anybody else, or takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from lcc.config import MetricsConfig
from lcc.metrics.exposition import Exposition
from lcc.metrics.watched import Process
from lcc.transport.http.replies import reply, reply_json
from lcc.transport.http.server import GuardedSite, text_header
from lcc.transport.ports.limited import LimitedFactory

_log = Logger()

HEADERS = {"cache_control": "no-store", "x_content_type_options": "nosniff"}


class MetricsPort(Resource):
    """All of it.

    :param near: it is reached over loopback: what calls it by another name came by a web page that
        has made a browser do so (DNS rebinding), and is refused.
    """

    isLeaf = True

    def __init__(self, process: Process, near: bool) -> None:
        super().__init__()
        self._process = process
        self._near = near
        self._exposition = Exposition(process.readings)
        self._pages: dict[bytes, Callable[[Request], None]] = {
            b"/metrics": self._metrics,
            b"/healthz": lambda request: self._health(request, alive_only=True),
            b"/readyz": lambda request: self._health(request, alive_only=False),
        }

    def render(self, request: Any) -> int:
        page = self._pages.get(request.path)
        if self._near and not _is_near(text_header(request, "host") or ""):
            reply_json(request, 421, {"error": "this is the metrics port of localhost"}, HEADERS)
        elif page is None:
            reply_json(request, 404, {"error": "not found; try /metrics, /healthz or /readyz"}, HEADERS)
        elif request.method not in (b"GET", b"HEAD"):
            reply_json(request, 405, {"error": "only GET and HEAD"}, {**HEADERS, "allow": "GET, HEAD"})
        else:
            try:
                page(request)
            except Exception:
                _log.failure("Cannot give the metrics")
                reply_json(request, 500, {"error": "cannot give the metrics; see the log"}, HEADERS)
        return NOT_DONE_YET

    def _metrics(self, request: Request) -> None:
        media_type, text = self._exposition.text(text_header(request, "accept") or "")
        reply(request, 200, media_type, text, HEADERS)

    def _health(self, request: Request, alive_only: bool) -> None:
        roles: dict[str, Any] = {}
        well = True
        for name, conditions in self._process.conditions().items():
            asked = [each for each in conditions if each.alive or not alive_only]
            roles[name] = {
                "ok": all(each.holds for each in asked),
                "conditions": [
                    {"name": each.name, "ok": True, **({"note": each.note} if each.note else {})}
                    if each.holds
                    else {"name": each.name, "ok": False, "fault": each.fault, "remedy": each.remedy}
                    for each in asked
                ],
            }
            well = well and roles[name]["ok"]
        body = {
            "ok": well,
            "reactor_lag_seconds": round(self._process.pulse.last_seconds, 6),
            "roles": roles,
        }
        reply_json(request, 200 if well else 503, body, HEADERS)


def _is_near(host: str) -> bool:
    name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
    try:
        return name.lower() in ("localhost", "") or ip_address(name).is_loopback
    except ValueError:
        return False


def build_site(
    process: Process, settings: MetricsConfig, near: bool, reactor: Any, now: Callable[[], float] | None = None
) -> LimitedFactory:
    """The factory for the port.

    :param now: seconds since 1970, for the dates of answers; None: as the machine has them.
    """
    site = GuardedSite(MetricsPort(process, near), timeout=settings.idle_timeout, reactor=reactor, now=now)
    return LimitedFactory(site, settings.connections_max, "connections to the metrics port")
