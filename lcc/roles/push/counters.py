"""What a push server counts since its start."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """
    :ivar pushes: that were accepted, and ``urls`` of them.
    :ivar refused: pushes that were not accepted.
    :ivar proven: keys whose files were found, for the first time or again; ``not_proven``: attempts that failed.
    :ivar told: URLs that the UNS has answered.
    :ivar urls_refused: of these, by the UNS.
    :ivar pushes_heard: of hubs, signed; ``pushes_forged``: not, or wrongly.
    :ivar polls_ordered: polls of feeds because of a hub.
    :ivar hubs_dropped: subscriptions that hubs did not confirm, or did not use.
    """

    pushes: int = 0
    urls: int = 0
    refused: int = 0
    proven: int = 0
    not_proven: int = 0
    told: int = 0
    urls_refused: int = 0
    pushes_heard: int = 0
    pushes_forged: int = 0
    polls_ordered: int = 0
    hubs_dropped: int = 0
