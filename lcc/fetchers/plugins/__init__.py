"""The place of fetcher plugins: modules here, and in every ``lcc/fetchers/plugins`` folder of the Python path.

A folder elsewhere must hold no ``__init__.py`` (doc/fetchers.md).
"""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
