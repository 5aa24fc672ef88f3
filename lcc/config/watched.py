"""Settings of watched providers."""

from __future__ import annotations

import attrs

from lcc.config.setting import setting


@attrs.frozen
class WatchedConfig:
    """Providers that nobody registered: sites that are watched.  What they get when they are made."""

    bandwidth_bytes: int = setting(
        100_000, "bandwidth of fetches from one; 0: unlimited", unit="bytes per second", minimum=0
    )
    interval: float = setting(
        1.0,
        "minimum time from the start of one fetch to the start of the next; 0: none",
        unit="seconds",
        minimum=0,
        maximum=30 * 86400,
    )
    files_max: int = setting(10_000, "file quota; 0: none", minimum=0)
    space_max_bytes: int = setting(10**9, "space quota; 0: none", unit="bytes", minimum=0)
    providers_max: int = setting(
        100_000, "maximum number of watched providers made by other processes than lcc-admin", minimum=0
    )
    domain_providers_max: int = setting(
        1000,
        "of these, of one registered domain (example.org with all its hosts); 0: no limit of their own",
        minimum=0,
    )
    domain_providers_hourly: int = setting(
        200, "of these, made within an hour: whoever has wildcard DNS has no end of hosts; 0: no limit", minimum=0
    )
