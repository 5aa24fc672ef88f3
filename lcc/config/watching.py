"""Settings of what tells how the LCC is."""

from __future__ import annotations

import attrs

from lcc.config.setting import setting


@attrs.frozen
class MetricsConfig:
    """Metrics for Prometheus and health of a process, over HTTP."""

    listen: str = setting(
        "", "endpoint of the metrics of twistd lcc, with all roles in it; empty: none; each role's own: metrics"
    )
    providers_shown: int = setting(
        20,
        "providers with series of their own: those whose URLs have waited for longest",
        minimum=0,
        maximum=1000,
    )
    survey_interval: float = setting(
        15.0,
        "between two surveys of the whole queue by the queue manager, for these metrics",
        unit="seconds",
        minimum=1,
    )
    connections_max: int = setting(50, "connections at once, each endpoint", minimum=1, maximum=10_000)
    idle_timeout: float = setting(
        60.0, "a connection on which nothing is asked for this long is closed", unit="seconds", minimum=1
    )


@attrs.frozen
class LogConfig:
    """The logs of the roles."""

    format: str = setting("text", "text: lines for people; json: one JSON object a line")
