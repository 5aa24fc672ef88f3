"""Workers: the processes that carry out jobs, and what is in each of them before and around their own code.

``lcc.worker`` and ``lcc-job`` are what workers use (doc/workers.md).  The rest is the manager's: the launcher, a
small process that forks a shepherd for each job, which starts the worker, holds it to its limits, and ends all its
processes.

Everything here runs in processes of its own, without a reactor, and imports little: a job costs one start of it.
"""
