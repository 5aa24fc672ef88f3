"""Whether this is ``make test-long``."""

import os

LONG = bool(os.environ.get("LCC_LONG"))
