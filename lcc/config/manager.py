"""Settings of managers, which run workers."""

from __future__ import annotations

import attrs

from lcc.config.setting import MANHOLE, METRICS, setting


@attrs.frozen
class ManagerConfig:
    """The manager: runs the jobs of the scheduler in worker processes."""

    name: str = setting("manager", "name of this manager, unique in the LCC")
    host: str = setting("", "name by which tasks choose this host (--on); empty: the host name of the machine")
    connect: str = setting("unix:{home}/scheduler.sock", "endpoint of the scheduler")
    content: str = setting(
        "",
        "content port of the (central) BOT-M, for the content that feed workers read: https://host:port, "
        "http://host:port or unix:PATH; empty: the one that botm.content_listen opens here",
    )
    content_bytes: int = setting(64 << 20, "longest content that a job is given", unit="bytes", minimum=1)
    folder: str = setting("manager", "folder of unrecorded endings of jobs, relative to home")
    workers: tuple[str, ...] = setting(
        ("workers",),
        "folders of the executables that jobs may run, relative to home; these, and all above them, must belong to "
        "root or the manager's user, and only their owners may write to them",
    )
    user: str = setting(
        "nobody", "user as whom workers run if the manager runs as root; otherwise they run as it does"
    )
    path: str = setting("", "PATH of workers; empty: the folder of lcc-job, then /usr/local/bin:/usr/bin:/bin")
    environment: tuple[str, ...] = setting((), 'further environment variables of workers, as "NAME=value"')
    scratch: str = setting(
        "",
        "folder in which each job gets a folder of its own; empty: under folder, or in the system's temporary folder "
        "if workers run as another user",
    )
    kinds: tuple[str, ...] = setting(
        (),
        'limits of single kinds of jobs that differ from those below, as "feed jobs=8 seconds=60": jobs, seconds, '
        "grace_seconds, memory_bytes, open_files, file_bytes, disk_bytes, processes, nice; jobs=0: none of that kind",
    )
    jobs_max: int = setting(8, "maximum number of jobs at once, of all kinds", minimum=1, maximum=10_000)
    jobs: int = setting(4, "of these, of one kind", minimum=0, maximum=10_000)
    seconds: float = setting(300.0, "time limit of a job; 0: none", unit="seconds", minimum=0, maximum=366 * 86400)
    grace_seconds: float = setting(
        10.0, "time between SIGTERM and SIGKILL for a job that is ended", unit="seconds", minimum=0, maximum=3600
    )
    memory_bytes: int = setting(
        1 << 30, "address space of each process of a job; 0: unlimited", unit="bytes", minimum=0
    )
    open_files: int = setting(256, "open files of each process of a job; 0: unlimited", minimum=0)
    file_bytes: int = setting(256 << 20, "longest file that a job may write; 0: unlimited", unit="bytes", minimum=0)
    disk_bytes: int = setting(
        1 << 30, "size of all files in the folder of a job; 0: unlimited", unit="bytes", minimum=0
    )
    processes: int = setting(64, "processes and threads of a job; 0: unlimited", minimum=0)
    nice: int = setting(10, "niceness of jobs, added to that of the manager", minimum=0, maximum=19)
    requests_max: int = setting(
        200_000, "maximum number of requests of a job on its descriptor 3", minimum=1, maximum=100_000_000
    )
    effects_max: int = setting(100_000, "maximum number of effects of a job", minimum=1, maximum=10_000_000)
    effects_bytes: int = setting(
        8 << 20, "maximum size of the effects of a job", unit="bytes", minimum=1 << 16, maximum=1 << 30
    )
    log_rows: int = setting(1000, "maximum number of log rows of a job; later ones are left out", minimum=0)
    scan_interval: float = setting(
        10.0, "interval between scans of the workers folders for new executables", unit="seconds", minimum=0.1
    )
    stop_seconds: float = setting(
        10.0,
        "when the manager is stopped, how long it waits for running jobs; the rest is ended and tried again",
        unit="seconds",
        minimum=0,
        maximum=86400,
    )
    metrics: str = setting("", METRICS)
    manhole: str = setting("", MANHOLE)
