"""Settings of metrics and logs."""

from __future__ import annotations

import attrs

from lcc.config.setting import setting


@attrs.frozen
class MetricsConfig:
    """Metrics for Prometheus and health checks, over HTTP."""

    listen: str = setting(
        "",
        "HTTP endpoint of the metrics of twistd lcc, with all its roles; empty: off; separate roles use their "
        "own setting metrics",
    )
    providers_shown: int = setting(
        20,
        "number of providers with their own time series: those whose URLs have waited longest",
        minimum=0,
        maximum=1000,
    )
    survey_interval: float = setting(
        15.0,
        "interval between the queue manager's scans of the whole queue for metrics",
        unit="seconds",
        minimum=1,
    )
    connections_max: int = setting(50, "maximum number of connections for each endpoint", minimum=1, maximum=10_000)
    idle_timeout: float = setting(
        60.0, "close connections without a request for this long", unit="seconds", minimum=1
    )


@attrs.frozen
class LogConfig:
    """The logs of the roles."""

    format: str = setting("text", "text: human-readable lines; json: one JSON object per line")
