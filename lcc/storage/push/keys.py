"""What an operator sees of keys, and says to them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lcc.model.push.pushes import KeyState, SiteKey
from lcc.storage.database.transactions import Txn
from lcc.storage.push.store import KEYS, REFUSED_BY_OPERATOR, as_key

REFUSED_SECONDS = 365 * 86400
"""How long new pushes with a key are refused that an operator has refused."""
SHOWN_MAX = 1000


def list_keys(txn: Txn, state: KeyState | None = None) -> list[SiteKey]:
    """Keys, the newest first; of one state or all, at most :data:`SHOWN_MAX`."""
    where, values = ("WHERE state = ?", [state.value]) if state else ("", [])
    sql = f"{KEYS.select} {where} ORDER BY made_time DESC, id LIMIT {SHOWN_MAX}"
    return [as_key(row) for row in txn.query(sql, values)]


def count_keys(txn: Txn) -> dict[str, int]:
    """State -> how many keys are in it."""
    return {state: int(count) for state, count in txn.query("SELECT state, COUNT(*) FROM pushkey GROUP BY state")}


def waiting_pushes(txn: Txn, url: str, sites: Sequence[str]) -> list[tuple[SiteKey, int]]:
    """Keys with which a URL was pushed, and when, as far as it is not told yet: the newest push with each.

    :param url: normal.
    :param sites: whose keys may speak for it.
    """
    rows = txn.query_in(f"{KEYS.select} WHERE site IN ({{in}}) ORDER BY id", sites)
    keys = {key.id: key for key in map(as_key, rows)}
    # As it stands in the column.
    text = json.dumps({"c": url}, separators=(",", ":"), ensure_ascii=False)[1:-1]
    found: dict[bytes, int] = {}
    for state in (0, 1):
        sql = f"SELECT keyid, time FROM pushset WHERE state = {state} AND keyid IN ({{in}}) AND INSTR(urls, ?) > 0"
        for ident, time in txn.query_in(sql, list(keys), after=[text]):
            found[bytes(ident)] = max(time, found.get(bytes(ident), 0))
    return [(keys[ident], time) for ident, time in found.items()]


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
    txn.execute_in(update, found, [REFUSED_BY_OPERATOR, until])
    update = "UPDATE pushset SET state = 3, urls = '', answer = ? WHERE state = 0 AND keyid IN ({in})"
    txn.execute_in(update, found, [REFUSED_BY_OPERATOR])
    return len(found)
