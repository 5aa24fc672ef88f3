"""``lcc-admin search``: the index of the search server."""
