"""A content user API with a cache on each backend."""

from tests.support.fixtures import api, cache, cu_settings, host

__all__ = ["api", "cache", "cu_settings", "host"]
