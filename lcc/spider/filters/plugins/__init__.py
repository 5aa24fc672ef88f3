"""The place of filters: modules here, and in every ``lcc/spider/filters/plugins`` folder of the Python path.

A folder elsewhere must hold no ``__init__.py`` (doc/spider.md).
"""

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []
