"""How Sphinx builds the documentation: ``make doc``.

Nothing is asked of the network.  Each reference that leads nowhere is a warning, and a warning ends the build.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "LCC"
author = "the LCC's authors"
copyright = "GPL-3.0-or-later"
release = version = version_of("lcc")

extensions = ["myst_parser", "sphinx.ext.autodoc", "lcc_docstrings", "lcc_commands"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["conf.py"]
# "--since" is an option, and no dash.
smartquotes = False
nitpicky = True
# Types of other projects; and those of our own that are no interface to anybody.
nitpick_ignore_regex = [
    ("py:.*", r"(collections|pathlib|ssl|twisted|zope)\..*"),
    ("py:.*", r"lcc\.(config|fetchers\.download|storage|transport|workers\.connection)\..*"),
    ("py:.*", r".*\._\w+"),
]

myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "attrs_inline"]

html_theme = "furo"
html_title = f"LCC {release}"
html_static_path = ["static"]
html_css_files = ["lcc.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_type_aliases = {"IContentSink": "lcc.interfaces.IContentSink"}
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
add_module_names = False
python_use_unqualified_type_names = True
