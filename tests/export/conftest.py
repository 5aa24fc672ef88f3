"""The content user API of the tests of content users."""

from tests.users.conftest import api, cache, cu_settings, host

__all__ = ["api", "cache", "cu_settings", "host"]
