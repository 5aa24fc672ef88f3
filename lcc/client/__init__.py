"""Clients of the LCC's own protocols: reading the cache, and content files."""
