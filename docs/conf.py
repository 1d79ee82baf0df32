"""Sphinx configuration."""

import re
import sys
from pathlib import Path

from pa_select import __version__

sys.path.append(str(Path(__file__).parent))  # of thumbnails.py and formulas.py

project = "pa_select"
copyright = "2026, the pa_select developers"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "sg_execution_times.rst"]
# Names of the package become links, whichever page they are on; other words become code.
default_role = "py:obj"
# A reference that leads nowhere is an error; but inherited docstrings use terms, labels and names
# of scikit-learn's and skorch's documentation.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(sklearn|skorch)\..*"), ("py:obj", ".*")]
suppress_warnings = ["ref.term", "ref.ref"]

# install.rst shows how to install from the address under [project.urls], once there is one.
settings = (Path(__file__).parents[1] / "pyproject.toml").read_text()
address = re.search(r'^Repository = "(.+)"$', settings, re.MULTILINE)
if address:
    tags.add("published")  # noqa: F821, Sphinx defines it
what = f'"pa-select @ git+{address[1]}"' if address else "."
rst_prolog = f"""
.. |install| replace:: ``pip install {what}``

.. py:currentmodule:: pa_select
"""

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types, in words
html_math_renderer = "mathml"  # of formulas.py: formulas show without a network
plot_html_show_formats = plot_html_show_source_link = False
plot_formats = [("png", 120)]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    # Modules that examples import are no pages. examples.rst offers them.
    "ignore_pattern": r"(^|/)(?!plot_)\w+\.py$",
    "download_all_examples": True,
    # Jupyter has options of its own on the command line, which are none of the examples'.
    "first_notebook_cell": "import sys\n\nsys.argv[1:] = []",
    "image_scrapers": ("thumbnails.scraper",),
    "minigallery_sort_order": "thumbnails.as_listed",
    "backreferences_dir": "gallery/backreferences",  # for the thumbnails of examples.rst
    "parallel": True,  # as many at once as sphinx's -j says
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": project},  # short enough for a telephone
    "navbar_center": [],  # the map at the side of each page has all pages
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
html_sidebars = {"**": ["map.html"]}
html_static_path = ["_static"]
html_css_files = ["pages.css"]


def leave_out_aliases(app, what, name, obj, skip, options):
    """Fields of named tuples are described in their docstrings."""
    return True if str(obj.__doc__).startswith("Alias for field number") else None


def keep_errors_beside_figures(app, document):
    """Show "1.4 +- 0.5" as one word, so that no line ends inside of it. Code stays as it is."""
    from docutils import nodes  # here: tests read this file where Sphinx is not installed

    for text in list(document.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block)):
            text.parent.replace(text, nodes.Text(re.sub(r"\s\+-\s", "\u00a0±\u00a0", text)))


def take_only_rst_as_heads_of_galleries(app):
    """The folder examples/papers has a README.md, which would make it a section of the gallery."""
    app.config.sphinx_gallery_conf["source_suffix"] = {".rst": "restructuredtext"}


def setup(app):
    from formulas import visit  # here for the same reason

    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    app.connect("autodoc-skip-member", leave_out_aliases)
    app.connect("doctree-read", keep_errors_beside_figures)
    if "sphinx_gallery.gen_gallery" in app.extensions:
        # before it looks for sections, and after it has read its settings
        app.connect("builder-inited", take_only_rst_as_heads_of_galleries, priority=100)
