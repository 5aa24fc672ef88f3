"""The place of feed plugins: modules here, and in every ``lcc/feeds/plugins`` folder of the Python path.

A folder elsewhere must hold no ``__init__.py`` (doc/feeds.md).
"""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
