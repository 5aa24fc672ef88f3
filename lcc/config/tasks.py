"""Settings of the scheduler."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class SchedulerConfig:
    """The scheduler of periodic tasks."""

    name: str = setting("scheduler", "name of this scheduler in logs, and at the UNS; printable ASCII")
    listen: str = setting("unix:{home}/scheduler.sock:mode=600:lockfile=0", "endpoint for managers")
    connect: str = setting(
        "unix:{home}/notify-scheduler.sock", "endpoint of the UNS's port of notifiers; empty: nothing is notified"
    )
    managers_max: int = setting(200, "maximum number of connected managers", minimum=1, maximum=10_000)
    managers_per_address: int = setting(
        40, "of these, from one IP address (IPv6: one /64 network); 0: no limit", minimum=0
    )
    lease: float = setting(
        60.0,
        "how long a manager may be silent before its jobs are lost; it ends them itself before then",
        unit="seconds",
        minimum=10,
        maximum=86400,
    )
    retries: int = setting(
        3, "how often a job is tried again after a temporary error, or when it is lost", minimum=0, maximum=100
    )
    retry_initial: int = setting(
        60, "delay before the first retry; each further one is four times as long", unit="seconds", minimum=1
    )
    jobs_max: int = setting(1_000_000, "maximum number of jobs that are pending or running", minimum=1)
    ready_max: int = setting(20_000, "due jobs held in memory", minimum=10, maximum=10_000_000)
    effects_max: int = setting(
        8 << 20,
        "maximum size of what a job stores, logs, adds and notifies of at once",
        unit="characters",
        minimum=65536,
    )
    jobs_kept: int = setting(
        30 * 86400, "how long jobs that ended, and their logs, are kept", unit="seconds", minimum=60
    )
    items_kept: int = setting(
        180 * 86400,
        "how long items are kept that their feed no longer has, and those of removed tasks",
        unit="seconds",
        minimum=60,
    )
    items_max: int = setting(
        20_000,
        "maximum number of items kept for a task; what its document has no longer goes first; 0: no limit",
        minimum=0,
    )
    items_bytes_max: int = setting(
        64_000_000, "maximum size of the items kept for a task, likewise; 0: no limit", unit="bytes", minimum=0
    )
    statistics_kept: int = setting(400, "how long the statistics of a day are kept", unit="days", minimum=1)
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
