"""What README and documentation show runs, and what they name is there.

Examples with a prompt (``>>>``) are doctests of the pages, which pytest collects itself. Here
are README's snippets and the pages' code blocks without a prompt.
"""

import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from sklearn import datasets
from sklearn.model_selection import GridSearchCV

import pa_select
from pa_select.model_selection.rules import RULES

ROOT = Path(pa_select.__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.rst"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^( *)\.\. code-block:: python\n((?:\1 +.*\n|\s*\n)+)", re.MULTILINE)


NEEDED = {"large.rst": ["lightning", "distributed"]}


def blocks(page):
    """Code blocks without a prompt."""
    found = [textwrap.dedent(code) for _, code in BLOCK.findall(page.read_text() + "\n")]
    return [code for code in found if ">>> " not in code]


def snippets_of_the_readme():
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def five_minutes():
    """The examples of five minutes, without what they print."""
    text = (ROOT / "docs/five_minutes.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        yield "\n".join(line[4:] for line in block.split("\n") if line[:4] in (">>> ", "... "))


@pytest.mark.slow
@pytest.mark.parametrize("code", [*snippets_of_the_readme(), *five_minutes()])
def test_each_example_of_the_first_pages_runs_alone(code, tmp_path):
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr


def test_snippets_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = datasets.load_digits(return_X_y=True)
    fewer = [values[:800] for values in digits]
    names = []
    for number, code in enumerate(snippets_of_the_readme()):
        # The first two have figures, which all digits give.
        given = digits if number < 2 else fewer
        monkeypatch.setattr(datasets, "load_digits", lambda return_X_y, given=given: given)
        names.append({"__name__": "__main__"})
        exec(compile(code, "README.md", "exec"), names[-1])
    table, scanners, _, net, logits = names
    committee, X, y = (table[name] for name in ("committee", "X", "y"))
    scores = [model.score(X[100:], y[100:]) for model in (committee, committee.search_)]
    text = (ROOT / "README.md").read_text()
    # A digit more or less may be right with the arithmetic of another processor.
    quoted = re.search(r"# ([\d.]+); ([\d.]+) the winner", text).groups()
    assert scores == pytest.approx([float(number) for number in quoted], abs=0.01)
    assert scores[0] > scores[1]
    remain = re.search(r"nats: ([\d.]+) of 7 candidates remain", text)
    assert committee.posterior_.n_effective == pytest.approx(float(remain[1]), abs=0.1)
    search, X, y = scanners["search"], scanners["X"], scanners["y"]
    truth = search.score(0.4 * X[1000:], y[1000:])
    usual = GridSearchCV(search.estimator, search.param_grid).fit(X[60:1000], y[60:1000])
    usual = usual.score(0.4 * X[1000:], y[1000:])
    assert f"# {search.expected_score_:.2f} expected" in text
    assert f"{truth:.2f} in truth; {usual:.2f} with GridSearchCV's choice" in text
    assert "at a new site" in (tmp_path / "report.html").read_text().lower()
    # Without a seed a training may run to its end.
    assert 1 <= net["stop"].best_epoch_ <= len(net["net"].history) <= 50
    assert logits["result"].gap < 1e-4


def test_draws_of_the_first_page_are_those_of_its_table():
    text = (ROOT / "README.md").read_text()
    table = pd.read_csv(ROOT / "docs/figures/first_page.csv").set_index("example")
    words = {16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "twenty"}
    committee, scanners, adapted, _ = table.to_dict("records")
    assert committee["draws"] == scanners["draws"] == adapted["draws"] == 20
    assert f"In {words[committee['better']]} of twenty draws the committee beat" in " ".join(
        text.split()
    )
    gain = float(scanners["points gained"].split()[0])
    assert f"{gain:.1f}" == "3.5"
    assert f"twenty draws: 3½ points, {words[scanners['better']]} better;" in text
    assert scanners["inside the interval"] == 20
    assert f"the {scanners['width in points']:.0f}-point interval held in all" in text
    assert f"adapted, both have {adapted['accuracy']:.0%}" in text.replace(" %", "%")
    assert f"{adapted['accuracy']:.2f}" == f"{adapted['usual choice']:.2f}"


def test_the_readme_is_short_and_shows_the_five_ways():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 600
    assert len(re.findall(r"\d+\.\d+", text)) <= 12
    assert "+-" not in text
    assert not re.search(r"`[\w/]+\.(py|rst|md|csv)`", text)
    ways = ["PACommittee(", "paired=", "environments=", "PAEarlyStopping(", "posterior_agreement("]
    snippets = snippets_of_the_readme()
    assert len(snippets) == len(ways)
    for snippet, way in zip(snippets, ways, strict=True):
        assert way in snippet
        assert len([line for line in snippet.split("\n") if line]) <= 13


def test_links_of_the_readme_lead_to_what_a_hosting_service_shows():
    # It shows the sources of reStructuredText pages with raw roles and without included tables.
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    inside = [link for link in links if "://" not in link]
    assert inside
    assert [link for link in inside if not (ROOT / link).is_file()] == []
    assert [link for link in inside if link.endswith(".rst")] == []


@pytest.mark.filterwarnings("ignore")  # other packages' own
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    # What stands under __main__ starts processes for minutes, and is only compiled.
    for package in NEEDED.get(page.name, []):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for code in blocks(page):
        exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda p: p.name)
def test_files_that_are_named_are_there(page):
    text = page.read_text()
    named = re.findall(r"\b((?:examples|tests|docs)/[\w/]+\.\w+)", text)
    named += [f"examples/{name}" for name in re.findall(r"sphx_glr_gallery_(plot_\w+\.py)", text)]
    assert [name for name in named if not (ROOT / name).is_file()] == []


def numbers(text):
    """Numbers with a decimal point, and with their standard error if they have one."""
    return set(re.findall(r"(?<![\w.])\d+\.\d+(?: \+- \d+\.\d+)?", text))


@pytest.mark.parametrize("page", ["docs/measured.md", "docs/comparison.rst"])
def test_figures_are_in_the_tables_that_are_named_beside_them(page):
    text = (ROOT / page).read_text()
    # Rows of tables in Markdown, and paragraphs of a page.
    passages = text.split("\n") if page.endswith(".md") else prose(text)
    quoting = {passage: re.findall(r"figures/(\w+\.csv)", passage) for passage in passages}
    quoting = {passage: tables for passage, tables in quoting.items() if tables}
    assert len(quoting) >= 4
    for passage, tables in quoting.items():
        quoted = numbers(" ".join(passage.split()))
        assert quoted
        assert [number for number in quoted if number not in contents(tables)] == [], passage


# A paragraph, by words of it, and the table that all its numbers with a decimal point are from.
QUOTING = [
    ("docs/paired.rst", "How many pairs?", "unlabelled_pairs.csv unlabelled_pairs_errors.csv"),
    ("docs/searching.rst", "about GridSearchCV's accuracy", "label_free_selection.csv"),
    ("docs/training.rst", "On digits of two scanners", "early_stopping.csv"),
    ("docs/theory.rst", "What an optimiser reports", "optimiser.csv"),
    ("docs/theory.rst", "Limit or price?", "richness.csv"),
    ("docs/comparison.rst", "*Many environments.*", "many_environments.csv"),
    ("docs/assessment.rst", "Between models", "distances_under_attack.csv"),
    ("docs/assessment.rst", "Between shifts", "ladder_of_shifts.csv"),
    ("docs/measured.md", "a problem with two maxima", "optimiser_problems.csv"),
]


@pytest.mark.parametrize(("page", "words", "table"), QUOTING, ids=lambda value: value)
def test_numbers_of_a_paragraph_are_in_its_table(page, words, table):
    passages = re.split(r"\n\n|\n(?= +\* - |- |\| )", (ROOT / page).read_text())
    [passage] = [p for p in passages if words in " ".join(p.split())]
    quoted = re.findall(r"\d+\.\d+(?: \+- \d+\.\d+)?", " ".join(passage.split()))
    assert quoted
    assert [number for number in quoted if number not in contents(table.split())] == []


def contents(tables):
    return "".join((ROOT / "docs/figures" / table).read_text() for table in tables)


def prose(text):
    """Paragraphs that are neither directives nor code: the doctests compare what code prints."""
    return [p for p in text.split("\n\n") if not re.search(r"^( *(>>>|\$) |\.\. )", p, re.M)]


# Sections that quote numbers of elsewhere, too, such as those of the papers' tables.
MIXED = {"What it costs", "The thesis", "Settings"}
MIXED |= {"Why the kernel is not concave"}


def measured_sections():
    """Yield page, title and text of the sections that name all tables of their numbers."""
    for page in (page for page in PAGES if page.suffix == ".rst"):
        for text in re.split(r"(?m)^(?=[^\n]+\n-{4,}\n)", page.read_text())[1:]:
            title = text.split("\n")[0]
            quoted = re.findall(r"(?<![\w.])\d+\.\d+(?: \+- \d+\.\d+)?", plain(text))
            if "figures/" in text and quoted and title not in MIXED:
                yield pytest.param(text, set(quoted) - {"1.96"}, id=f"{page.stem}: {title}")


def plain(text):
    """The prose on one line."""
    return " ".join(" ".join(prose(text)).split())


SECTIONS = list(measured_sections())


@pytest.mark.parametrize(("section", "quoted"), SECTIONS)
def test_numbers_of_a_section_are_in_the_tables_that_it_names(section, quoted):
    measured = contents(re.findall(r"figures/(\w+\.csv)", section))
    assert [number for number in quoted if number not in measured] == []
    assert len(SECTIONS) > 30


def printed_errors():
    """Numbers beside their error in what the pages' examples print, as in ``2.01   0.03``."""
    lines = [line.split() for page in PAGES for line in page.read_text().split("\n")]
    return {f"{a} +- {b}" for line in lines for a, b in pairwise(line)}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_number_with_an_error_is_measured(page):
    tables = contents(path.name for path in (ROOT / "docs/figures").glob("*.csv"))
    quoted = re.findall(r"\d+\.\d+ \+- \d+\.\d+", plain(page.read_text()))
    unknown = {number for number in quoted if number not in tables}
    assert unknown - printed_errors() == set()


def test_every_page_is_in_a_table_of_contents():
    named = set()
    for page in PAGES:
        for tree in re.findall(r"toctree::\n((?: +.*\n|\s*\n)+)", page.read_text() + "\n"):
            named |= set(re.findall(r"^ +(?:.*<)?(\w+)>?$", tree, re.MULTILINE))
    # The gallery writes the last one, and conf.py leaves it out.
    assert {page.stem for page in PAGES} - {"index", "sg_execution_times"} <= named


def test_every_example_is_in_one_section():
    listed = re.findall(r"^ +\.\./(examples/.+)$", (ROOT / "docs/examples.rst").read_text(), re.M)
    there = [f"examples/{path.name}" for path in (ROOT / "examples").glob("plot_*.py")]
    assert sorted(listed) == sorted(there)


def test_the_page_on_searching_lists_every_rule():
    page = (ROOT / "docs/searching.rst").read_text()
    assert [name for name in RULES if f'"{name}"' not in page] == []


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f'version: "{pa_select.__version__}"' in citation
    [entry] = re.findall(r"@software\{.*?\n    \}", (ROOT / "docs/papers.rst").read_text(), re.S)
    assert f"version = {{{pa_select.__version__}}}" in entry
    [title] = re.findall(r"title   = \{(.*)\}", entry)
    assert f'title: "{title}"' in citation
