"""The summary of a search, its report, and the warnings that it keeps."""

import copy
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle

from pa_select import PACommittee, PASearchCV
from pa_select.model_selection.summary import in_digits, with_error

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X, y = X[:360], y[:360]
THIRDS = np.arange(360) % 3


def trees(**parameters):
    grid = {"max_depth": [2, 4, 8]}
    return PASearchCV(DecisionTreeClassifier(random_state=0), grid, cv=3, **parameters)


def of_pairs(gammas, refit=True):
    search = PASearchCV(SVC(), {"gamma": gammas}, cv=3, adapter="ridge", refit=refit)
    return search.fit(X[60:], y[60:], paired=(X[:60], 0.4 * X[:60]))


@pytest.fixture(scope="module")
def with_pairs():
    return of_pairs([1e-4, 1e-3, 1e-2])


@pytest.fixture(scope="module")
def with_sites():
    pairs = {"B & <i>\x1b": (X[:60], 0.6 * X[:60]), "Bern": (X[:60], np.zeros((60, 64)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return trees().fit(X[60:], y[60:], paired=pairs)


@pytest.fixture(scope="module")
def with_environments():
    return trees().fit(X, y, environments=np.array(["A", "B & <i>", "C"])[THIRDS])


class WorstEnvironment:
    """A rule of the user's own, which says what it ranks."""

    decides = "score_worst_environment"

    def __call__(self, cv_results):
        return int(cv_results[f"mean_test_{self.decides}"].argmax())


@pytest.fixture(scope="module")
def by_worst_environment():
    model, grid = LogisticRegression(max_iter=1000), {"C": [1e-5, 1e-4, 1e-3]}
    search = PASearchCV(model, grid, cv=3, scoring="neg_log_loss", refit=WorstEnvironment())
    return search.fit(X, y, environments=THIRDS)


@pytest.fixture(scope="module")
def of_regressors():
    X, y = load_diabetes(return_X_y=True)
    noisy = X[:60] + np.random.default_rng(0).normal(scale=0.03, size=(60, 10))
    options = {"scoring": "neg_root_mean_squared_error", "cv": 3}
    search = PASearchCV(Ridge(), {"alpha": [0.01, 1, 100]}, **options)
    return search.fit(X[60:], y[60:], paired=(X[:60], noisy))


@pytest.fixture(scope="module")
def with_committee():
    return of_pairs([1e-3, 2.5e-3], PACommittee(min_weight=0))


SEARCHES = ["with_pairs", "with_sites", "with_environments", "by_worst_environment"]
SEARCHES += ["of_regressors"]


class Page(HTMLParser):
    """Keeps the text and the elements; fails if one is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.tags = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag != "meta":  # shapes are closed at once, and come through handle_startendtag
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("li", "p", "h1"):  # the next one begins on a line of its own
            self.words.append(" ")

    def handle_data(self, text):
        if self.open and self.open[-1] != "style":
            self.words.append(text)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def text_of(search):
    return Page(search.report()).text


@pytest.mark.parametrize("name", [*SEARCHES, "with_committee"])
def test_a_page_has_all_that_it_needs(name, request):
    report = request.getfixturevalue(name).report()
    page = Page(report)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not {"src", "href"} & {key for _, attributes in page.tags for key in attributes}
    assert "url(" not in report
    assert "nan" not in page.text.split("The candidates")[0]


def test_the_answer_has_the_expected_score(with_pairs):
    text, table, best = text_of(with_pairs), with_pairs.cv_results_, with_pairs.best_index_
    expected, error = with_pairs.expected_score_, with_pairs.expected_score_se_
    ends = expected - 1.96 * error, min(expected + 1.96 * error, 1)
    low, _ = with_pairs.expected_interval_
    at_home = with_error(table["mean_test_score"][best], table["se_test_score"][best])
    for said in (
        f"Use SVC with gamma={with_pairs.best_params_['gamma']:.3g}.",
        f"expected to be {with_error(expected, error)}, ",
        f"probably {in_digits(ends[0], error)} to {in_digits(ends[1], error)}.",
        f"it is at least {in_digits(low, error)} (95 % interval).",
        f"cross-validated, is {at_home}.",
        "must first be adapted, as best_adapted_ does.",
    ):
        assert said in text, said


def test_every_site_is_named_and_escaped(with_sites):
    page = with_sites.report()
    text = Page(page).text
    assert "adapted" not in text
    assert "At the worst other site its accuracy is" in text
    # Control characters are escaped, too.
    assert r"expected accuracy at B & <i>\x1b" in text
    for shown in (page, with_sites._repr_html_()):
        assert not {"<i>", "\x1b"} & {x for x in ("<i>", "\x1b") if x in shown}
    for message in with_sites.warnings_:
        assert message in text


def test_errors_have_no_minus_sign(of_regressors):
    text, error = text_of(of_regressors), of_regressors.expected_score_se_
    expected, (low, _) = -of_regressors.expected_score_, of_regressors.expected_interval_
    assert f"root mean squared error is expected to be {with_error(expected, error)}, " in text
    assert f"first site are wrong, it is at most {in_digits(-low, error)} (" in text


def test_without_pairs_the_agreement_is_told(with_environments):
    text, table = text_of(with_environments), with_environments.cv_results_
    best = with_environments.best_index_
    name = table["worst_environment_score"][best]
    worst = table["mean_test_score_worst_environment"][best]
    sites = {x: table[f"mean_test_score_environment_{x}"][best] for x in ("A", "B & <i>", "C")}
    listed = ", ".join(f"{site} {sites[site]:.3f}" for site in sorted(sites, key=sites.get))
    agreement = with_error(table["agreement"][best], table["agreement_se"][best])
    for said in (
        f"Its agreement is {agreement} nats per pair",
        f"in the worst environment, {name}, is {worst:.3f}",
        f"In each environment, the worst first: {listed}.",
        "Its accuracy at a new site is not known.",
    ):
        assert said in text, said
    assert "<i>" not in with_environments.report()


def test_if_no_candidate_is_eligible_the_page_does_not_recommend_one():
    search = PASearchCV(SVC(), {"C": [1e-9, 1e-8]}, cv=3)
    with pytest.warns(UserWarning, match="No candidate with a finite"):
        search.fit(X[:, :2], y, environments=np.arange(360) % 2)
    text = text_of(search)
    assert "No candidate is good enough; SVC with C=" in text
    assert "Use" not in text.split("The candidates")[0]


def test_with_a_committee_its_score_is_said_first(with_committee):
    search = copy.copy(with_committee)
    own = search.cv_results_["expected_score"][search.best_index_]
    search.expected_score_, search.committee_score_ = own - 0.05, own - 0.1
    together, single = text_of(search).split("Of single candidates gamma=")
    assert "Use the committee of 2 candidates, in which gamma=" in together
    error = search.expected_score_se_
    assert f"is expected to be {with_error(search.expected_score_, error)}, " in together
    assert f"of the labelled rows is {search.committee_score_:.3f}." in together
    # The chosen candidate has numbers of its own.
    assert f"expected to be {in_digits(own, error)}" in single
    assert f"weights {search.posterior_.n_effective:.1f} of 2 remain." in single
    search.committee_score_ = np.nan
    assert "expected to be" not in text_of(search).split("Of single")[0]


def test_a_committee_of_one_candidate_is_that_candidate():
    search = PASearchCV(SVC(), {"gamma": [1e-3, 1]}, cv=3, refit="committee")
    text = text_of(search.fit(X, y, environments=THIRDS))
    assert "Use gamma=0.001, which alone is in the committee." in text


@pytest.mark.parametrize("name", SEARCHES)
def test_a_summary_has_the_columns_that_decide(name, request):
    search = request.getfixturevalue(name)
    summary, table, chosen = search.summary(), search.cv_results_, search.best_index_
    assert sorted(summary["index"]) == [0, 1, 2]
    assert summary["chosen"].tolist() == [True, False, False]
    decides = table.get("expected_score", table.get("agreement"))
    if name == "by_worst_environment":
        decides = table["mean_test_score_worst_environment"]
    order = sorted(range(3), key=lambda i: (i != chosen, not table["eligible"][i], -decides[i]))
    for column in summary.columns.drop("chosen"):
        values = table.get(column, np.arange(3))  # "index" is the candidate's number
        np.testing.assert_array_equal(summary[column], np.asarray(values)[order])
    # With pairs the agreement decides nothing.
    assert ("agreement" in summary) == ("expected_score" not in table)
    # A screen of 80 columns shows what is chosen, and the value that decides.
    assert summary.columns[0] == "chosen"
    np.testing.assert_array_equal(summary.iloc[:, 1], np.asarray(decides)[order])


def test_a_page_is_written_to_a_file(with_pairs, tmp_path):
    assert with_pairs.report(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == with_pairs.report()
    for method in ("summary", "report"):
        with pytest.raises(NotFittedError):
            getattr(clone(with_pairs), method)()


def test_without_a_choice_the_page_says_so():
    several = {"accuracy": "accuracy", "f1": "f1_macro"}
    search = trees(scoring=several, refit=False).fit(X, y, environments=np.arange(360) % 2)
    assert "nothing is chosen" in text_of(search)
    assert not search.summary()["chosen"].any()


def test_warnings_are_given_and_kept():
    search = trees()
    with pytest.warns(UserWarning, match="pairs") as given:
        search.fit(X[60:], y[60:], paired=(X[:5], X[:5] + 1))
    assert search.warnings_
    assert set(search.warnings_) <= {str(one.message) for one in given}
    assert not search.fit(X, y, environments=THIRDS).warnings_
    assert "saw no rows from elsewhere" not in search.report()
    assert "saw no rows from elsewhere" in search.fit(X, y).report()
