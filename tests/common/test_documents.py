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
    for code in snippets_of_the_readme():
        # Those with figures need all digits.
        given = digits if "# 0." in code and "environments" not in code else fewer
        monkeypatch.setattr(datasets, "load_digits", lambda return_X_y, given=given: given)
        names.append({"__name__": "__main__"})
        exec(compile(code, "README.md", "exec"), names[-1])
    table, scanners, _, labels, net, logits = names
    committee, X, y = (table[name] for name in ("committee", "X", "y"))
    scores = [model.score(X[100:], y[100:]) for model in (committee.search_, committee)]
    # A digit more or less may be right with the arithmetic of another processor.
    assert scores == pytest.approx(quoted(r"# ([\d.]+), ([\d.]+)\n```\n\nTo leave"), abs=0.01)
    assert scores[0] < scores[1]
    search, usual = scanners["search"], scanners["usual"]
    dim, y = 0.4 * scanners["X"][1000:], scanners["y"][1000:]
    found = [search.expected_score_, *search.expected_interval_]
    assert found == pytest.approx(quoted(r"# ([\d.]+), between ([\d.]+) and ([\d.]+)"), abs=0.01)
    assert [search.score(dim, y)] == pytest.approx(quoted(r"# ([\d.]+) in truth"), abs=0.01)
    found = [usual.best_score_, usual.score(dim, y)]
    assert found == pytest.approx(quoted(r"# ([\d.]+) promised, ([\d.]+) in truth"), abs=0.01)
    assert "at a new site" in (tmp_path / "report.html").read_text().lower()
    site, rest = labels["site"], (0.4 * labels["X"][500:], labels["y"][500:])
    found = [site.expected_score_, site.committee_.score(*rest)]
    assert found == pytest.approx(quoted(r"# ([\d.]+) expected, ([\d.]+) in truth"), abs=0.01)
    # Without a seed a training may run to its end.
    assert 1 <= net["stop"].best_epoch_ <= len(net["net"].history) <= 50
    found = [logits["result"].score, logits["result"].beta]
    assert found == pytest.approx(quoted(r"# ([\d.]+), ([\d.]+); none"), abs=0.01)
    assert logits["result"].gap < 1e-4


def quoted(pattern):
    """The numbers of the only place in README that looks like this."""
    [found] = re.findall(pattern, (ROOT / "README.md").read_text())
    return [float(x) for x in ([found] if isinstance(found, str) else found)]


def test_figures_of_the_readme_are_those_of_its_files():
    text = " ".join((ROOT / "README.md").read_text().split())
    table = pd.read_csv(ROOT / "docs/figures/first_page.csv").set_index("example")
    committee, votes, scanners, adapted, sites, labels = table.to_dict("records")
    draws = {one["draws"] for one in (committee, votes, scanners, adapted, labels)}
    assert draws == {20}

    def percent(share):
        return f"{100 * share:.1f} %"

    three = percent(committee["usual choice"]), percent(votes["accuracy"])
    assert f"| {three[0]} | {three[1]} | {percent(committee['accuracy'])}; better than" in text
    assert f"better than the winner in {committee['better']:.0f} draws" in text
    for name, ends in {
        "`GridSearchCV`": ("promised", "usual choice"),
        "`PASearchCV`": ("expected", "accuracy"),
    }.items():
        promised, truth = (percent(scanners[end]) for end in ends)
        assert f"| {name} | {promised} | {truth} |" in text
    assert scanners["inside the interval"] == labels["inside the interval"] == 20
    assert f"{adapted['accuracy']:.0%}" == f"{adapted['usual choice']:.0%}" == "99%"
    assert "both choices have 99 %" in text
    assert sites["inside the interval"] == sites["draws"] == 13
    found = percent(labels["accuracy"]), percent(labels["usual choice"])
    assert f"the committee had {found[0]}, and" in text
    assert f"best on the thirty labels {found[1]}." in text
    usual = pd.read_csv(ROOT / "docs/figures/usual_tables.csv")
    usual = usual.set_index(["rows", "rule", "metric"])["gain"]
    rules = {
        "the winner by log-loss": "choice by log-loss",
        "`PACommittee`": "committee",
        '`PACommittee`, `scoring="neg_log_loss"`': "committee, by log-loss",
        "greedy selection (AutoGluon)": "greedy selection",
    }
    metrics = "accuracy", "area under the curve", "log-loss"
    for words, rule in rules.items():
        gains = " | ".join(usual[200, rule, metric].split()[0] for metric in metrics)
        assert f"| {words} | {gains} % |" in text
    epochs = pd.read_csv(ROOT / "docs/figures/early_stopping.csv").set_index("weights kept")
    old, new = (
        epochs.loc["best validation accuracy", f"agreement gains, {end}"].split()[0]
        for end in ("old", "new")
    )
    assert f"was {new[1:]} points better on the new scanner" in text
    assert f"and {old[1:]} worse on the old one" in text


def test_the_readme_is_short_and_shows_the_six_ways():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 1000
    assert "+-" not in text
    assert not re.search(r"`[\w/]+\.(py|rst|md|csv)`", text)
    ways = ["PACommittee(", "paired=", "environments=", "FewLabels(", "PAEarlyStopping("]
    ways += ["posterior_agreement("]
    snippets = snippets_of_the_readme()
    assert len(snippets) == len(ways)
    for snippet, way in zip(snippets, ways, strict=True):
        assert way in snippet
        assert len([line for line in snippet.split("\n") if line]) <= 12


def test_links_of_the_readme_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    inside = [link for link in links if "://" not in link]
    assert inside
    assert [link for link in inside if not (ROOT / link).is_file()] == []


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
    passages = in_markdown(text) if page.endswith(".md") else prose(text)
    quoting = {passage: re.findall(r"figures/(\w+\.csv)", passage) for passage in passages}
    quoting = {passage: tables for passage, tables in quoting.items() if tables}
    assert len(quoting) >= 4
    for passage, tables in quoting.items():
        quoted = numbers(" ".join(passage.split()))
        # A list of files need not quote them.
        assert quoted or passage.startswith("- ")
        assert [number for number in quoted if number not in contents(tables)] == [], passage


def in_markdown(text):
    """Tables with the paragraph above, which names their files; other paragraphs; list items."""
    for block, below in pairwise([*text.split("\n\n"), ""]):
        if below.startswith("|"):
            assert "figures/" in block, below
            yield f"{block}\n{below}"
        elif not block.startswith("|"):
            yield from re.split(r"\n(?=- )", block)


def test_all_files_of_the_page_of_figures_are_there():
    page = (ROOT / "docs/measured.md").read_text()
    listed = re.findall(r"\]\(figures/(\w+\.csv)\)", page.split("## All files")[1])
    assert len(listed) == len(set(listed)) == 40
    assert all((ROOT / "docs/figures" / file).is_file() for file in listed)


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


def test_whole_numbers_on_large_data_are_in_the_tables():
    page = plain((ROOT / "docs/large.rst").read_text())
    adam = pd.read_csv(ROOT / "docs/figures/solver.csv")["Adam"]
    assert f"took {adam.min()} to {adam.max()} times" in page
    solves = pd.read_csv(ROOT / "docs/figures/device_predicted.csv").query("pairs == 10_000_000")
    assert all(f"{time:.0f} ms " in page for time in solves["ms of the solve"])


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
    assert len(SECTIONS) > 5


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
