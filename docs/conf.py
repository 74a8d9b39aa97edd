# SPDX-License-Identifier: Apache-2.0
"""Settings of the documentation site: `nox -s docs` builds it."""

project = "torch-spyre"
author = "the torch-spyre developers"
copyright = author  # noqa: A001 - the name that Sphinx reads

extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "torch-spyre"
# Python 3.11 objects in the API page are documented by hand; nothing is imported for this site.
default_role = "code"
highlight_language = "python"
pygments_style = "sphinx"
suppress_warnings = ["myst.xref_missing"]
