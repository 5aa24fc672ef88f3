"""Workers in Python of our own, by the kind of jobs that they carry out without a command.

They run in forks of a template process that has imported their module: a fork costs some milliseconds, the imports of
a feed worker several hundred.
"""

from __future__ import annotations

BUILTIN = {
    "feed": "lcc.feeds.worker:main",
    "robots": "lcc.feeds.worker:robots",
    "sitemap": "lcc.feeds.sitemap_worker:main",
    "text": "lcc.feeds.worker:text",
}
"""Kind -> ``module:function``, which is called without arguments; what it returns is the exit code (None: 0)."""
