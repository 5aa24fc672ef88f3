"""The content user API of the tests of content users."""

from tests.support.fixtures import api, cache, cu_settings, host

__all__ = ["api", "cache", "cu_settings", "host"]
