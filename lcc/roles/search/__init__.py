"""The search server: an index of the cache, and who searches it (:mod:`lcc.roles.search.engine`)."""
