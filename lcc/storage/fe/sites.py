"""Where a site that nobody has is about to be watched (``sitehomes``): two that ask at once get one answer."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

from lcc.storage.database.transactions import Txn

KEPT_SECONDS = 3600
"""Long after whoever asks has had the provider made."""
_FORGOTTEN_AT_ONCE = 100


def claim_site(txn: Txn, root: str, subid: int, now: int, left: Collection[int] = ()) -> int:
    """A site is about to be watched in a sub-LCC.

    :param root: normalised.
    :param left: sub-LCCs that it has left: what was claimed for them counts no more.
    :returns: where: another one, if somebody else was first.
    """
    place = root.partition("://")[2]
    site = blake2b(place.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    old = txn.query(
        "SELECT site FROM sitehomes WHERE made_time < ? ORDER BY made_time LIMIT ?",
        [now - KEPT_SECONDS, _FORGOTTEN_AT_ONCE],
    )
    for row in old:
        txn.execute("DELETE FROM sitehomes WHERE site = ?", row)
    for former in left:
        # Of two at once the second changes nothing.
        changing = "UPDATE sitehomes SET subid = ?, made_time = ? WHERE site = ? AND subid = ?"
        txn.execute(changing, [subid, now, site, former])
    txn.upsert("sitehomes", ["site", "subid", "made_time"], [(site, subid, now)], ["site"], ["site"])
    return int(txn.value("SELECT subid FROM sitehomes WHERE site = ?", [site]))
