"""The pages need no network: formulas are MathML, and nothing is requested from elsewhere."""

import ast
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import pa_select

ROOT = Path(pa_select.__file__).parents[1]
DOCS = ROOT / "docs"
FORMULA = re.compile(r":math:`([^`]+)`|\.\. math::((?:[^\n]*\n)(?:\s*\n| +\S.*\n?)*)")
# A page with what the others have: a formula, an example, a table, a picture.
PAGE = r"""
A page
======

The sum :math:`\sum_i x_i`, and

.. math:: \overline{\log p'_i(j)} \le \frac1n

>>> for number in [1, 2]:
...     print(number)
1
2

==== ====
 a    b
==== ====
 1    2
==== ====
"""
# What a browser loads by itself; links are followed by readers.
REQUESTS = r"""(?:(?:src|srcset|data|poster)=|url\(|@import )["']?(?:https?:)?//"""


def formulas():
    """Formulas of the pages and of the docstrings, each with whether it is on its own lines."""
    texts = [path.read_text() for path in [*DOCS.glob("*.rst"), *DOCS.glob("*.md")]]
    for path in Path(pa_select.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                texts.append(ast.get_docstring(node) or "")
    found = [match for text in texts for match in FORMULA.findall(text)]
    return [(inside or block, bool(block)) for inside, block in found]


@pytest.fixture
def as_mathml(monkeypatch):
    pytest.importorskip("latex2mathml")
    pytest.importorskip("docutils")
    monkeypatch.syspath_prepend(DOCS)
    yield __import__("formulas").as_mathml
    sys.modules.pop("formulas", None)


def test_every_formula_is_shown_by_every_browser(as_mathml):
    found = formulas()
    assert sum(block for _, block in found) > 20
    assert len(found) > 300
    for formula, block in found:
        text = as_mathml(formula, block)
        ElementTree.fromstring(text)
        assert "\\" not in text, formula  # a command that the converter does not know
        assert re.findall(r'mathvariant="(?!normal)', text) == [], formula
        assert "&#x02015;" not in text, formula  # a line over a sum that may not stretch
        assert text.count('class="overline"') == formula.count(r"\overline"), formula


def test_letters_of_other_alphabets_are_letters(as_mathml):
    text = as_mathml(r"\mathbb E \mathbf 1 \mathcal N")
    assert re.findall(r"<m[in]>(.)</m[in]>", text) == ["𝔼", "𝟏", "𝒩"]


def test_a_built_page_requests_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("latex2mathml")
    pytest.importorskip("pydata_sphinx_theme")
    application = pytest.importorskip("sphinx.application")
    (tmp_path / "index.rst").write_text(PAGE)
    only = {"extensions": ["sphinx.ext.autodoc"], "html_sidebars": {}, "rst_prolog": ""}
    built = tmp_path / "html"
    application.Sphinx(
        str(tmp_path), str(DOCS), str(built), str(tmp_path / "trees"), "html", only, status=None
    ).build()
    page = (built / "index.html").read_text()
    assert page.count("<math ") == 2
    assert "mathjax" not in page.lower()
    assert (
        re.findall(r'<link[^>]+rel="[^"]*(?:stylesheet|icon|preload)[^>]+href="http', page) == []
    )
    loaded = [page, *(path.read_text() for path in built.rglob("*.css"))]
    assert [found for text in loaded for found in re.findall(REQUESTS, text)] == []
