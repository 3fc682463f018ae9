"""How the documentation is built: `make docs`, from Markdown and docstrings, with no network."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "shieldwall"
author = "the authors of shieldwall"
version = release = installed("shieldwall")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
extensions += ["plain_docstrings", "short_signatures", "outward_links"]
extensions += ["breakable_names", "column_names", "native_math", "board"]
exclude_patterns = ["_static", "_extensions"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "native"

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
add_module_names = False

highlight_language = "text"

html_theme = "furo"
html_title = "shieldwall"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
pygments_style = "default"
