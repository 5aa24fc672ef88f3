"""What workers written in Python use (doc/workers.md)::

from lcc.worker import Job, run

def main(job: Job) -> None:
    job.status("cleaning")
    …

run(main)
"""

from lcc.workers.api import (
    DONE,
    PERMANENT,
    TEMPORARY,
    Job,
    JobError,
    JobInfo,
    PermanentError,
    TemporaryError,
    run,
)

__all__ = ["DONE", "PERMANENT", "TEMPORARY", "Job", "JobError", "JobInfo", "PermanentError", "TemporaryError", "run"]
