"""What an operator sees of keys, and says to them."""

from __future__ import annotations

from lcc.model.pushes import KeyState, SiteKey
from lcc.storage.database.transactions import Txn
from lcc.storage.push.store import KEYS, as_key

REFUSED = "the operator has refused this site"
SHOWN_MAX = 1000


def list_keys(txn: Txn, state: KeyState | None = None) -> list[SiteKey]:
    """Keys, the newest first; of one state or all, at most :data:`SHOWN_MAX`."""
    where, values = ("WHERE state = ?", [state.value]) if state else ("", [])
    sql = f"{KEYS.select} {where} ORDER BY made_time DESC, id LIMIT {SHOWN_MAX}"
    return [as_key(row) for row in txn.query(sql, values)]


def decide_key(txn: Txn, host: str, approve: bool, until: int) -> int:
    """The operator approves the keys of a host that wait for that, or refuses its keys, waiting or not.

    The push server does the rest: it makes the provider, or drops what waits.

    :param until: so long, in seconds since 1970, new pushes with these keys are refused.
    :returns: how many keys that were.
    """
    sites = [f"http://{host}/", f"https://{host}/"]
    sql = "SELECT id FROM pushkey WHERE site IN ({in})"
    if approve:
        sql += " AND state = 'approval'"
    found = [ident for (ident,) in txn.query_in(sql, sites)]
    if approve:
        update = "UPDATE pushkey SET state = 'approved', why = '', due_time = 0 WHERE id IN ({in})"
        txn.execute_in(update, found)
        return len(found)
    update = "UPDATE pushkey SET state = 'refused', why = ?, due_time = ? WHERE id IN ({in})"
    txn.execute_in(update, found, [REFUSED, until])
    update = "UPDATE pushset SET state = 3, urls = '', answer = ? WHERE state = 0 AND keyid IN ({in})"
    txn.execute_in(update, found, [REFUSED])
    return len(found)
