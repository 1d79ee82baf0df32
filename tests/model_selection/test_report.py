"""The summary of a search, its report, and the warnings that it keeps."""

import copy
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle

from pa_select import CandidatePosterior, PACommittee, PASearchCV
from pa_select.model_selection.results_table import in_digits
from pa_select.plotting import PASearchDisplay
from pa_select.utils import messages

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
X, y = X[:360], y[:360]
TREES = {"max_depth": [2, 4, 8]}
THIRDS = np.arange(360) % 3


def trees(**parameters):
    return PASearchCV(DecisionTreeClassifier(random_state=0), TREES, cv=3, **parameters)


@pytest.fixture(scope="module")
def with_pairs():
    search = PASearchCV(SVC(), {"gamma": [1e-4, 1e-3, 1e-2]}, cv=3, adapter="ridge")
    return search.fit(X[60:], y[60:], paired=(X[:60], 0.4 * X[:60]))


@pytest.fixture(scope="module")
def with_sites():
    pairs = {"B & <i>": (X[:60], 0.6 * X[:60]), "Bern": (X[:60], np.zeros((60, 64)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return trees().fit(X[60:], y[60:], paired=pairs)


@pytest.fixture(scope="module")
def with_environments():
    return trees().fit(X, y, environments=np.array(["A", "B & <i>", "C"])[np.arange(360) % 3])


@pytest.fixture(scope="module")
def by_worst_environment():
    model, grid = LogisticRegression(max_iter=1000), {"C": [1e-5, 1e-4, 1e-3]}
    search = PASearchCV(model, grid, cv=3, scoring="neg_log_loss", selection="worst_environment")
    return search.fit(X, y, environments=THIRDS)


@pytest.fixture(scope="module")
def of_regressors():
    X, y = load_diabetes(return_X_y=True)
    noisy = X[:60] + np.random.default_rng(0).normal(scale=0.03, size=(60, 10))
    search = PASearchCV(
        Ridge(), {"alpha": [0.01, 1, 100]}, scoring="neg_root_mean_squared_error", cv=3
    )
    return search.fit(X[60:], y[60:], paired=(X[:60], noisy))


SEARCHES = [
    "with_pairs",
    "with_sites",
    "with_environments",
    "by_worst_environment",
    "of_regressors",
]


class Page(HTMLParser):
    """Keeps the text and the numbers of the pictures; fails if an element is not closed."""

    EMPTY = ("meta",)

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.tags, self.marks = [], [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        # Shapes of a picture are closed at once, and come through handle_startendtag.
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.marks.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "li":  # the next one begins on a line of its own
            self.words.append(" ")

    def handle_data(self, text):
        if self.open[-1] != "style":
            self.words.append(text)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


def changed(search, **columns):
    """The search with other columns."""
    other = copy.copy(search)
    other.cv_results_ = search.cv_results_ | columns
    return other


def text_of(search):
    return Page(search.report()).text


def percent(place):
    return float(place.removesuffix("%"))


def circles_of(search):
    """The places of the circles, from left to right in percent."""
    marks = Page(search.report()).marks
    return [percent(mark["cx"]) for tag, mark in marks if tag == "circle"]


@pytest.mark.parametrize("name", [*SEARCHES, "with_committee"])
def test_a_page_has_all_that_it_needs(name, request):
    report = request.getfixturevalue(name).report()
    page = Page(report)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not {"src", "href"} & {key for _, attributes in page.tags for key in attributes}
    assert "url(" not in report
    assert "nan" not in page.text.split("The candidates")[0]
    # All marks are inside of the picture.
    for _, attributes in page.marks:
        for key, value in attributes.items():
            if re.fullmatch("[xy][12]|c[xy]", key):
                assert 0 <= percent(value) <= 100
    # It begins with a sentence, at most four points, and the pictures.
    sentence = Page(report[report.index("</h1>") + 5 : report.index("</p>") + 4]).text
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    head = report[report.index("</h1>") : report.index("<h2>")]
    assert 1 <= head.count("<li>") <= 4
    assert head.index("<ul>") < head.index('<div class="picture"')
    # The key of a picture names all of its colours.
    pictures = re.findall(r'<div class="picture.*?</div><p class="key">.*?</p>', report)
    assert head.count('<div class="picture') == len(pictures) == 2
    for picture in pictures:
        marks, key = picture.split('<p class="key">')
        named = dict(re.findall(r"background: (#\w+)\"></span>(\w+):", key))
        assert set(re.findall(r'(?:circle|rect)[^>]*fill="(#\w+)"', marks)) == set(named)
        assert len(set(named.values())) == len(named)


def test_the_answer_has_the_expected_score(with_pairs):
    text, table, best = text_of(with_pairs), with_pairs.cv_results_, with_pairs.best_index_
    expected, error = with_pairs.expected_score_, with_pairs.expected_score_se_
    ends = expected - 1.96 * error, min(expected + 1.96 * error, 1)
    low, _ = with_pairs.expected_interval_
    measured = table["expected_score_as_measured"].max()
    assert table["adapted"][best]
    for said in (
        "QuestionWhich candidate has the best accuracy at the other site",
        f"Labelled rows{len(X) - 60}; each candidate was fitted 3 times",
        f"Use SVC with gamma={with_pairs.best_params_['gamma']:.3g}.",
        f"to be {expected:.3f} ± {error:.3f}. If the pred",
        f"probably between {ends[0]:.3f} and {ends[1]:.3f} (1.96 standard errors).",
        f"Even if the predicted probabilities are wrong, it is at least {low:.3f} (",
        f"{table['mean_test_score'][best]:.3f}",
        "60, measured at both sites",
        "best_adapted_",
        f"On rows as measured the best expected accuracy is {measured:.3f}.",
        f"To beat{table['chance_test_score'][0]:.3f}, the best accuracy of predictions that ign",
    ):
        assert said in text, said


def test_every_site_is_named_and_escaped(with_sites):
    page = with_sites.report()
    assert "first mapped" not in page  # there is no adapter
    text = Page(page).text
    assert "60 at B & <i>, 60 at Bern" in text
    assert "At the worst site, Bern, its accuracy is" in text
    assert "expected accuracy at B & <i>" in text
    assert "at the other sites, where nothing is labelled?" in text
    assert "Circle and thick line: expected accuracy at the worst site, with 1.96 st" in text
    assert "<i>" not in page
    for message in with_sites.warnings_:
        assert message in text


def test_errors_have_no_minus_sign(of_regressors):
    text = text_of(of_regressors)
    expected, (low, _) = -of_regressors.expected_score_, of_regressors.expected_interval_
    assert f"its root mean squared error is expected to be {expected:.1f} ±" in text
    assert f"predictions at the first site are wrong, it is at most {-low:.1f} (" in text
    chance = -of_regressors.cv_results_["chance_test_score"][0]
    assert f"To beat{chance:.1f}, the best root mean squared error of predictions" in text


@pytest.mark.parametrize(("better", "told"), [(-0.01, False), (0.01, True), (0.9, False)])
def test_a_site_that_only_seems_better_is_explained(with_pairs, better, told):
    at_home = with_pairs.cv_results_["expected_score"] - better
    text = text_of(changed(with_pairs, mean_test_score=at_home))
    assert ("Do not expect the other site to be better" in text) == told


def test_other_columns_are_told(with_pairs):
    told = "best_adapted_ does. The columns there are others"
    assert told not in text_of(with_pairs)
    search = PASearchCV(SVC(), {"gamma": [1e-3]}, adapter="ridge", cv=2)
    search.fit(X[60:], y[60:], paired=(X[:60], X[:60, ::2]))
    assert told in text_of(search)


def test_without_pairs_the_agreement_is_told(with_environments):
    text, table = text_of(with_environments), with_environments.cv_results_
    best = with_environments.best_index_
    # No other tree is eligible: the reason is that of the deepest of them.
    assert table["eligible"].tolist() == [False, False, True]
    reason = table["reason"][1].removeprefix("not eligible: ")
    worst = table["mean_test_score_worst_environment"][best]
    name = table["worst_environment_score"][best]
    sites = {x: table[f"mean_test_score_environment_{x}"][best] for x in ("A", "B & <i>", "C")}
    listed = ", ".join(f"{sites[site]:.3f} ({site})" for site in sorted(sites, key=sites.get))
    for said in (
        "Environments3: A, B & <i>, C",
        f"{table['agreement'][best]:.3f}",
        reason.replace("score 0.", "accuracy 0."),
        "rows of different environments",
        f"In the worst environment, {name}, it is {worst:.3f}",
        f"in each environment, the worst first: {listed}.",
        "Its accuracy at another site is not known.",
        f"{np.log(10):.2f} the most",
        "measure some forty objects",
    ):
        assert said in text, said
    assert f"{worst:.3f} ({name})" in text.split("The candidates")[1]
    assert "<i>" not in with_environments.report()
    assert "In a new one" not in text


def test_candidates_that_agree_as_well_are_named():
    grid = {"max_depth": [2, 4, 8, 50, 51]}
    search = PASearchCV(DecisionTreeClassifier(random_state=0), grid, cv=3)
    search.fit(X, y, environments=THIRDS)
    alike = search.summary().query("not_told_apart").index.tolist()
    assert len(alike) > 1  # the last three trees are equal
    text = text_of(search)
    same = " cannot be told from that of the chosen candidate"
    advice = text.split("What to do next")[1]
    named = advice.removeprefix("The agreement of ").split(f"{same}: ")[0]
    assert sorted(named.replace(" and ", "; ").split("; ")) == sorted(alike)
    assert f"; the agreement of {named}{same}" in text.split("Why this one")[1]
    assert f"{len(alike)} others cannot be told from this candidate by their agreement." in text


def test_if_no_other_candidate_can_be_told_from_the_chosen_none_is_named(with_pairs):
    search = changed(with_pairs, not_told_apart=np.arange(3) != with_pairs.best_index_)
    text = text_of(search)
    assert "None of the 2 others can be told from this candidate." in text
    # The weights tell two of the three apart.
    explained = "and tell fewer candidates apart."
    assert (explained in text, explained in text_of(with_pairs)) == (True, False)
    advice = text.split("What to do next")[1]
    assert advice.startswith("The expected accuracy of none of the 2 others can be told from that")
    # What is known beyond four points is below the pictures.
    search._n_planned = 5  # one point more
    head, rest = search.report().split("<h2>More about the choice</h2>")
    assert head.count("<li>") == 4
    assert "Interrupted after 3 of 5 candidates." in head
    assert "None of the 2 others" in rest.split("<h2>")[0]


@pytest.mark.parametrize("noise", [0, 1e-16, 1e-3])
def test_candidates_of_the_same_value_are_named(by_worst_environment, noise):
    values = np.full(3, -0.5)
    values[by_worst_environment.best_index_] += noise
    search = changed(by_worst_environment, mean_test_score_worst_environment=values)
    text, names = text_of(search), search.summary().index[1:]
    same, in_worst = f"{' and '.join(names)} have the same", "log loss in the worst environment"
    for said in (f"the best {in_worst} among the 3 candidates; {same}", f". {same} {in_worst}."):
        assert (said in text) == (noise < 1e-9)


@pytest.mark.parametrize("gained", [0.01, -0.01, 1e-15])
def test_a_candidate_that_agrees_as_well_and_has_a_better_score_is_named_at_once(gained):
    search = PASearchCV(SVC(), {"C": [1, 50, 51]}, cv=3).fit(X, y, environments=THIRDS)
    other, third = np.setdiff1d(np.arange(3), search.best_index_)
    scores = np.full(3, 0.9)
    scores[[other, third]] += gained, -0.05
    search = changed(search, mean_test_score=scores, not_told_apart=np.arange(3) == other)
    error = search.cv_results_["se_test_score"][other]
    said = (
        f"C={search.param_grid['C'][other]} agrees as well, as far as can be told, and its "
        f"accuracy is {0.9 + gained:.3f} ± {error:.3f}: take it if the accuracy matters more to "
        "you."
    )
    answer = text_of(search).split("What was asked")[0]
    assert (said in answer) == ("agrees as well" in answer) == (gained == 0.01)
    assert "alone would choose" not in answer  # which would name it twice
    assert "Its cross-validated accuracy is 0.900 ± " in answer


def test_the_page_names_the_candidate_of_the_best_score():
    search = trees(selection=lambda table: int(np.argmin(table["mean_test_score"])))
    search.fit(X, y, environments=THIRDS)
    scores = search.cv_results_["mean_test_score"]
    best = f"max_depth={TREES['max_depth'][int(np.argmax(scores))]}"
    said = f"Cross-validation alone would choose {best}, whose accuracy is {scores.max():.3f}."
    assert said in text_of(search)


def test_if_no_candidate_is_eligible_the_page_does_not_recommend_one():
    search = PASearchCV(SVC(), {"C": [1e-9, 1e-8]}, cv=3)
    with pytest.warns(UserWarning, match="No candidate is within"):
        search.fit(X[:, :2], y, environments=np.arange(360) % 2)
    text = text_of(search)
    assert "No candidate is good enough; SVC with C=" in text
    assert "no candidate is eligible: accuracy" in text
    assert "Use" not in text.split("What was asked")[0]


def test_the_page_does_not_depend_on_earlier_searches(monkeypatch):
    monkeypatch.setattr(messages, "_SAID", set())
    with pytest.warns(UserWarning, match="fit was given no pairs"):
        first = trees().fit(X, y)
    page = first.report()
    # The footer has the date.
    assert first.fit(X, y).report().split("<footer>")[0] == page.split("<footer>")[0]
    assert re.search(r"<footer>\d{4}-\d\d-\d\d, pa_select ", page)
    assert not first.warnings_
    text = Page(page).text
    assert "saw no rows from elsewhere." in text
    assert "fit(X, y" not in text


def test_a_page_names_the_score_that_decides(by_worst_environment):
    page = Page(by_worst_environment.report())
    words = "the best log loss in the worst environment"
    assert f"Which candidate has {words}?" in page.text
    assert f"Why this oneit has {words} among the 3 candidates" in page.text
    assert "line: log loss in the worst environment, with standard error" in page.text
    assert "left to chance" not in page.text
    # The picture shows losses, of which the chosen candidate's is the smallest.
    circles = [percent(mark["cx"]) for tag, mark in page.marks if tag == "circle"]
    assert circles == sorted(circles)
    assert len(set(circles)) == 3
    losses = re.search(
        r"The log loss of \S+ in each environment, the worst first: (.*)\)\.W", page.text
    )
    values = [float(of_one.split()[0]) for of_one in losses[1].split(", ")]
    assert values == sorted(values, reverse=True)
    assert len(values) == 3


def test_unseen_environments_show_what_a_new_one_may_be_like():
    search = trees().set_params(cv=LeaveOneGroupOut())
    sites = np.arange(360) % 6
    sites[:4] = 6
    with pytest.warns(UserWarning, match="leaves out 1 of them"):
        search.fit(X, y, environments=sites)
    text, table = text_of(search), search.cv_results_
    scores = [table[f"mean_test_score_environment_{k}"][search.best_index_] for k in range(6)]
    ranged = f"its accuracy ranged from {min(scores):.3f} to {max(scores):.3f}. "
    assert f"Over the 6 environments, which the fits had not seen, {ranged}" in text
    assert "It may be worse because this candidate was chosen by these sites, and if" in text
    assert "is not known" not in text


def test_an_error_that_is_not_known_is_not_promised():
    search = trees(selection="worst_environment").set_params(cv=LeaveOneGroupOut())
    text = Page(search.fit(X, y, environments=THIRDS).report()).text
    assert "Circle: accuracy in the worst environment. Orange" in text
    assert np.isnan(search.cv_results_["se_test_score_worst_environment"]).all()
    display = PASearchDisplay.from_result(search)
    assert "standard error" not in display.ax_.get_xlabel()


def test_the_usual_choice_is_compared():
    def faded(X):
        return 0.3 * X

    grid = {"gamma": [1e-4, 1e-3]}
    search = PASearchCV(SVC(C=10), grid, cv=3).fit(X[60:], y[60:], paired=(X[:60], faded(X[:60])))
    table = search.cv_results_
    usual = int(np.argmax(table["mean_test_score"]))
    assert usual != search.best_index_
    expected = f"expected to have {table['expected_score'][usual]:.3f} there"
    assert expected in text_of(search)


def test_candidates_that_are_not_eligible_are_grey(with_environments):
    page = Page(with_environments.report())
    circles = [attributes["fill"] for tag, attributes in page.marks if tag == "circle"]
    eligible = with_environments.summary()["eligible"].to_numpy()
    assert not eligible.all()
    assert len(set(circles)) == 1 + len(set(eligible[1:]))  # the chosen one has its own
    assert page.text.count("(not eligible)") == 3 - eligible.sum()
    assert "Grey: not eligible." in page.text
    assert "within some standard errors of the best, and better" in page.text


def test_a_candidate_of_a_pipeline_is_named_by_its_last_step():
    grid = {"standardscaler__with_std": [True, False]}
    search = PASearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=2)
    assert "Use SVC with with_std=" in text_of(search.fit(X, y, environments=THIRDS))


def test_scores_that_hardly_differ_are_in_the_middle_of_their_frame(by_worst_environment):
    worst = np.array([-0.5, -0.4999, -0.4998])
    places = circles_of(changed(by_worst_environment, mean_test_score_worst_environment=worst))
    assert 40 < min(places) < max(places) < 60


@pytest.mark.parametrize("agreement", [0.0009, 1.2])
def test_hardly_any_agreement_does_not_fill_its_frame(with_environments, agreement):
    few = np.array([0, 0.5, 1]) * agreement
    search = changed(with_environments, agreement=few, agreement_se=np.zeros(3))
    places = circles_of(search)
    assert min(places) == 0
    assert (max(places) < 1) == (agreement < 0.1)
    assert (max(places) > 90) == (agreement > 0.1)
    assert max(places) < 96  # some room is left
    [table] = re.findall("<table>.*?</table>", search.report())
    longest = max(
        float(bar) for bar in re.findall(r"([\d.]+)%, transparent", table.split("<td")[1])
    )
    assert (longest < 1) == (agreement < 0.1)
    low, high = PASearchDisplay.from_result(search).ax_.get_ylim()
    assert (low <= 0 and high >= 0.1) or agreement > 0.1


@pytest.mark.parametrize("weights", [[0.5, 0.3, 0.2], [0.96, 0.04, 0.0], [0.02, 0.02, 0.96]])
def test_weights_are_drawn_from_zero(with_environments, weights):
    page = Page(changed(with_environments, weight=np.array(weights)).report())
    bars = [percent(mark["width"]) for tag, mark in page.marks if tag == "rect"]
    kept = sorted((x for x in weights if x > 0.1), reverse=True)
    np.testing.assert_allclose(bars, np.array(kept) * 100 / 1.05 / max(weights), atol=0.01)
    left_out = 3 - len(kept)
    assert (f"The {left_out} others together have 0.04." in page.text) == (left_out > 0)


@pytest.mark.parametrize("name", ["with_pairs", "with_sites", "of_regressors"])
def test_what_is_missing_is_advised(name, request):
    search = request.getfixturevalue(name)
    table, i = search.cv_results_, search.best_index_
    error, of_pairs = (table[f"expected_score_se{part}"][i] for part in ("", "_pairs"))
    advice = text_of(search).split("What to do next")[1]
    n = search.n_objects_
    n = n[table["worst_site"][i]] if isinstance(n, dict) else n
    twice, four = search.plan_pairs([2 * n, 4 * n]).values()
    where = f"at {table['worst_site'][i]}, too," if name == "with_sites" else "at both sites"
    now, twice, four = map(in_digits, (error, twice, four))
    of_objects = (
        f"with {2 * n} measured {where} its standard error would be about {twice} "
        f"instead of {now}, and with {4 * n} about {four}."
    )
    assert (of_objects in advice) == (2 * of_pairs**2 > error**2)
    assert ("comes from the labelled rows" in advice) == (2 * of_pairs**2 <= error**2)
    alike = search.summary().query("not_told_apart").index
    assert ("be told from that of the chosen" in advice) == (len(alike) > 0)
    # The best of them first, in the order of the summary.
    named = f"{' and '.join(alike)} cannot be told"
    named = named if len(alike) < 2 else "none of the 2 others can be told"
    assert named in advice or not len(alike)


def test_caveats_name_what_every_expected_score_assumes(with_pairs, with_environments):
    for search, assumed in ((with_pairs, True), (with_environments, False)):
        text = text_of(search)
        careful = text.split("What to be careful about")[1].split("What to do next")[0]
        of_one = "the objects measured at both sites and those to come are random draws from one"
        assert (of_one in careful) == assumed
        assert ("a new one may be worse than the worst of them" in careful) != assumed
        # Only these pairs have an adapter.
        assert ("Adaptedrows of the other site are first mapped" in text) == assumed
        assert (", adapted" in text) == assumed


@pytest.fixture(scope="module")
def with_committee():
    committee = PACommittee(min_weight=0)
    search = PASearchCV(SVC(), {"gamma": [1e-3, 2.5e-3]}, cv=3, adapter="ridge", refit=committee)
    return search.fit(X[60:], y[60:], paired=(X[:60], 0.4 * X[:60]))


def test_with_a_committee_its_score_is_said_first(with_committee):
    search = copy.copy(with_committee)
    own = search.cv_results_["expected_score"][search.best_index_]
    search.expected_score_, search.committee_score_ = own - 0.05, own - 0.1
    assert len(search.best_estimator_.candidates_) == 2
    text = text_of(search)
    together, single = text.split("What was asked")[0].split("The best single candidate is SVC")
    assert "A committee of 2 candidates predicts: " in together
    said = f"its accuracy is expected to be {search.expected_score_:.3f} ± "
    assert f"{said}{search.expected_score_se_:.3f}. If the predicted pro" in together
    low, _ = search.expected_interval_
    assert f"are wrong, it is at least {low:.3f} (95 % interval)." in together
    home = f"accuracy at the site of the labelled rows is {search.committee_score_:.3f}."
    assert f"Its cross-validated {home} Call predict of the search" in together
    assert "that of best_adapted_." in together
    # The chosen candidate has numbers of its own.
    assert f"expected to be {own:.3f}" in single
    assert "refit=" not in text


def test_a_committee_without_pairs_has_its_cross_validated_score():
    model, grid = LogisticRegression(max_iter=1000), {"C": [1e-5, 1e-4, 1e-3]}
    search = PASearchCV(model, grid, cv=3, scoring="neg_log_loss", refit=PACommittee(min_weight=0))
    search.fit(X, y, environments=THIRDS)
    together = text_of(search).split("The best single candidate is Logis")[0]
    assert f"Its cross-validated log loss is {-search.committee_score_:.3f}." in together
    assert "expected" not in together
    assert "best_adapted_" not in together
    search.committee_score_ = np.nan
    assert "Its cross" not in text_of(search).split("The best single")[0]


@pytest.mark.parametrize(
    ("gamma", "said"),
    [
        ([1e-3, 1], "Only gamma=0.001 remains in the committee: the parts of the data agree"),
        ([1e-3], "Use SVC, the only candidate."),
        # Nor did the data look at candidates that have no scores.
        ([1e-3, -1.0], "Only gamma=0.001 remains in the committee: no other candidate has all sc"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_a_committee_of_one_candidate_says_why(gamma, said):
    search = PASearchCV(SVC(), {"gamma": gamma}, cv=3, refit="committee")
    text = text_of(search.fit(X, y, environments=THIRDS))
    assert said in text
    assert ("agree that it is" in text) == (gamma[-1] == 1)
    several = len(gamma) > 1
    assert ("The best single candidate is SVC with gamma=0.001." in text) == several


def test_the_weights_say_how_many_candidates_remain(with_committee, with_environments):
    posterior = with_committee.posterior_
    text = text_of(with_committee)
    assert f"By their weights {posterior.n_effective:.1f} of 2 candidates remain" in text
    assert "Weighthow probable it is that the candidate is the best one" in text
    search = copy.copy(with_environments)
    posterior = vars(search.posterior_)
    for changed, said in (
        ({"score": 0.0}, "The data cannot tell the 3 candidates apart; all remain."),
        ({"score": np.log(2.5), "n_effective": 1.04}, "weights 1.0 of 3 candidates remains: "),
        ({"n_candidates": 2, "score": 0.1}, "of 2 candidates that have all scores remain: "),
        ({"n_candidates": 1}, None),
    ):
        search.posterior_ = CandidatePosterior(**posterior | changed)
        text = text_of(search)
        assert ("remain" in text) == (said is not None)
        assert said is None or said in text
    search.posterior_, search.cv_results_ = None, dict(search.cv_results_)
    del search.cv_results_["weight"]
    text = text_of(search)
    assert "remain" not in text
    assert "weight" not in text.lower()


@pytest.mark.parametrize(
    ("weight", "n_kept"), [([1, 0, 0], 1), ([0.5, 0.04, 0.46], 2), ([0.6, 0.2, 0.2], 3)]
)
def test_a_committee_is_advised_where_several_candidates_remain(with_pairs, weight, n_kept):
    text = text_of(changed(with_pairs, weight=np.array(weight)))
    advice = text.split("What to do next")[1]
    said = f'which of {n_kept} candidates is the best. A search with refit="committee" keeps them'
    assert (said in advice) == (n_kept > 1)
    assert ("refit=" in advice) == (n_kept > 1)


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
    assert {"mean_test_score", "se_test_score", "eligible", "weight"} <= set(summary)
    assert "reason" not in summary  # for which a screen is too narrow
    if name == "with_sites":
        assert {"expected_score_Bern", "expected_score_se_Bern", "worst_site"} <= set(summary)
    # With pairs the agreement decides nothing.
    assert ("agreement" in summary) == ("expected_score" not in table)
    if name == "with_environments":
        assert {"mean_test_score_worst_environment", "worst_environment_score"} <= set(summary)
    assert len(summary.columns) < 15
    # A screen of 80 columns shows what is chosen, and the value that decides.
    assert summary.columns[0] == "chosen"
    np.testing.assert_array_equal(summary.iloc[:, 1], np.asarray(decides)[order])
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        head = repr(summary).splitlines()[0].split()
    assert head[:2] == summary.columns[:2].tolist()


def test_a_page_is_written_to_a_file(with_pairs, tmp_path):
    assert with_pairs.report(tmp_path / "report.html") is None
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == with_pairs.report()
    with pytest.raises(FileNotFoundError):
        with_pairs.report(tmp_path / "missing" / "report.html")
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


@pytest.mark.parametrize("name", ["a\x00\x1b[31mb", "x\u202ey\x85"])
def test_control_characters_of_names_are_escaped(name):
    X, y = load_iris(return_X_y=True)
    X_a, X_b = X[::3], 1.1 * X[::3]
    kept = np.arange(len(X)) % 3 > 0
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, cv=3)
    search.fit(X[kept], y[kept], paired={name: (X_a, X_b), "usual": (X_a, 1.2 * X_a)})
    for page in (search.report(), search._repr_html_()):
        assert not re.search("[\x00\x1b\x85\u202e]", page)
    assert name.encode("unicode_escape").decode() in search.report()
