"""The console scripts of the provider's tools: what must happen before anything large is imported.

``lcccp --pwd`` is seen in the list of processes until it is written over; and a standard handle that is closed must
not become the first file that somebody opens.
"""

from __future__ import annotations

from lcc.commands.standard_streams import reopen_closed_streams
from lcc.provider.hidden import hide_option


def file2url() -> None:
    """``file2url``."""
    reopen_closed_streams()
    from lcc.provider.file2url import main

    main()


def lcccpstate() -> None:
    """``lcccpstate``."""
    reopen_closed_streams()
    from lcc.provider.lcccpstate import main

    main()


def lccwatch() -> None:
    """``lccwatch``."""
    hide_option("--pwd")
    reopen_closed_streams()
    from lcc.provider.lccwatch import main

    main()


def lcccp() -> None:
    """``lcccp``."""
    hide_option("--pwd")
    reopen_closed_streams()
    from lcc.provider.lcccp import main

    main()
