"""What the environment says of a run."""

import os

LONG = bool(os.environ.get("LCC_LONG"))
"""Whether this is ``make test-long``."""
BACKENDS = os.environ.get("LCC_BACKENDS", "sqlite mariadb").split()
"""The databases that tests of both run on: ``sqlite``, ``mariadb``, ``galera``."""
