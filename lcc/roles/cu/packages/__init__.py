"""Packages: rows of the cache with their content, as one stream (tar, tar.gz, WARC).

:mod:`packing` goes through the rows and opens their content (:mod:`bodies`), a writer (:mod:`tarball`, :mod:`warc`)
makes bytes of them, :mod:`production` runs both step by step in threads.
"""
