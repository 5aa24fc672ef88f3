"""The content user API of the tests of content users."""

from tests.cu.conftest import api, cache, cu_settings, host

__all__ = ["api", "cache", "cu_settings", "host"]
