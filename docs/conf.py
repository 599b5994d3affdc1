"""The documentation site: `make docs` builds it without a network."""

import pathlib
import sys
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

# They are found by the path above, so they come after it.
import reference  # noqa: E402

import wordline  # noqa: E402

project = "wordline"
author = "The wordline authors"
project_copyright = "The wordline authors"
version = release = wordline.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns: list[str] = []
# A reference that leads nowhere is a warning, and make docs takes warnings for errors.
nitpicky = True
# Other packages' pages are not at hand, and what begins with _ has none.
nitpick_ignore_regex = [
    ("py:.*", r"(numpy|pandas|polars|os|concurrent|collections|typing|NDArray|np)\b.*"),
    ("py:.*", r"wordline\.(\w+\.)*_.*|Backend"),
]
myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3

# What is written with two hyphens is an option.
smartquotes = False

python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"wordline {version}"
html_static_path: list[str] = []
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "tango"
pygments_dark_style = "monokai"


# Pages of the repository outside of docs/, by the links that lead to them, and where the site has them.
ELSEWHERE = {"](../../examples/README.md)": "](../examples.md)"}


def link_to_site(app: Any, page: str, source: list[str]) -> None:
    for link, here in ELSEWHERE.items():
        source[0] = source[0].replace(link, here)


def setup(app: Any) -> None:
    app.connect("source-read", link_to_site)
    app.connect("builder-inited", lambda app: reference.write(HERE / "reference"))
