"""Robustness curves: every column against its definition, and what is refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.svm import SVC

from pa_select import class_scores, compare_agreement, posterior_agreement, robustness_curve
from pa_select.shifts import FGSM, GaussianNoise, TransformShift
from papers.shifts import FMN

X, Y = load_digits(return_X_y=True)
X, Y = X / 16, np.array([f"digit {label}" for label in Y])
TRAIN, TEST = slice(0, 600), slice(600, 750)
LINEAR = LogisticRegression(max_iter=200).fit(X[TRAIN], Y[TRAIN])
FOREST = RandomForestClassifier(20, random_state=0).fit(X[TRAIN], Y[TRAIN])
MODELS = {"linear": LINEAR, "forest": FOREST}
CONSTANT = DummyClassifier(strategy="constant", constant="digit 3").fit(X[TRAIN], Y[TRAIN])
WITH_CONSTANT = {"linear": LINEAR, "constant": CONSTANT}
NOISE = GaussianNoise(random_state=3)
POWERS, RATIOS = [0.1, 0.4], [0.0, 0.5, 1.0]


def reached(n, ratio, seed=7):
    """Return which of n rows a shift reaches."""
    order = np.random.RandomState(seed).permutation(n)
    return np.isin(np.arange(n), order[: round(ratio * n)])


def mix(X, X2, ratio):
    return np.where(reached(len(X), ratio)[:, None], X2, X)


def rows_of(curve):
    return curve.to_frame().to_dict("records")


@pytest.fixture(scope="module")
def curve():
    how = {"shift": NOISE, "powers": POWERS, "ratios": RATIOS, "random_state": 7}
    return robustness_curve(MODELS, X[TEST], Y[TEST], **how)


def test_every_column_is_what_it_says(curve):
    x, y = X[TEST], Y[TEST]
    rows = rows_of(curve)
    assert [(r["estimator"], r["power"], r["ratio"]) for r in rows] == [
        (name, power, ratio) for name in MODELS for power in POWERS for ratio in RATIOS
    ]
    for row in rows:
        model = MODELS[row["estimator"]]
        shifted = NOISE(x, power=row["power"])
        x2 = mix(x, shifted.X, row["ratio"])
        (a, _), (b, _) = class_scores(model, x), class_scores(model, x2)
        result, own = posterior_agreement([a, a], [b, a], prior="marginal")
        assert row["n_pairs"] == len(x)
        assert row["pa"] == pytest.approx(result.score, abs=1e-5)
        assert row["beta"] == pytest.approx(result.beta, rel=0.05)
        assert row["standard_error"] == pytest.approx(result.standard_error, rel=0.05)
        assert 0 <= row["gap"] <= 1e-5
        assert row["pa_change"] == pytest.approx(result.score - own.score, abs=1e-5)
        papers = posterior_agreement(a, b)
        assert row["pa_uniform"] == pytest.approx(papers.score, abs=1e-6)
        assert row["standard_error_uniform"] == pytest.approx(papers.standard_error, rel=0.05)
        same = np.mean(model.predict(x) == model.predict(x2))
        assert row["afr_pred"] == pytest.approx(same)
        clean, after = (accuracy_score(y, model.predict(rows)) for rows in (x, x2))
        assert row["clean_accuracy"] == pytest.approx(clean)
        assert row["shifted_accuracy"] == row["afr_true"] == pytest.approx(after)
        assert row["accuracy_drop"] == pytest.approx(clean - after)
        assert row["relative_accuracy_drop"] == pytest.approx((clean - after) / clean)
        p, q = (np.exp(s) / np.exp(s).sum(1, keepdims=True) for s in (a, b))
        clean, after = (log_loss(y, values, labels=model.classes_) for values in (p, q))
        assert row["log_loss"] == pytest.approx(after)
        assert row["log_loss_gap"] == pytest.approx(after - clean)
        assert row["relative_log_loss_gap"] == pytest.approx((after - clean) / clean)
        assert row["kl"] == pytest.approx(entropy(p, q, axis=1).mean(), abs=1e-12)
        assert row["wasserstein"] == pytest.approx(np.abs(p - q).sum(1).mean() / 2)
        right = np.array([model.predict(rows) == y for rows in (x, x2)], float)
        losses = [
            -np.log(v)[np.arange(len(y)), np.searchsorted(model.classes_, y)] for v in (p, q)
        ]
        of_rows = {
            "clean_accuracy": right[0],
            "shifted_accuracy": right[1],
            "accuracy_drop": right[0] - right[1],
            "afr_pred": model.predict(x) == model.predict(x2),
            "log_loss": losses[1],
            "log_loss_gap": losses[1] - losses[0],
            "kl": entropy(p, q, axis=1),
            "wasserstein": np.abs(p - q).sum(1) / 2,
        }
        for name, values in of_rows.items():
            error = np.std(values, ddof=1) / np.sqrt(len(y))
            assert row[f"{name}_se"] == pytest.approx(error, abs=1e-12)
        change = compare_agreement(result, own).standard_error
        assert row["pa_change_se"] == pytest.approx(change, rel=0.05, abs=1e-6)
        moved = shifted.norm[reached(len(x), row["ratio"])]
        expected = moved.mean() if len(moved) else np.nan
        assert row["mean_norm"] == pytest.approx(expected, nan_ok=True)
        assert np.isnan(row["success_rate"])


def test_rows_of_one_group_are_not_independent():
    patients, x, y = np.repeat(np.arange(50), 4), X[TEST][:50], Y[TEST][:50]
    how = {"shift": TransformShift(lambda rows: 0.5 * rows), "powers": [1]}
    once = robustness_curve({"forest": FOREST}, x, y, **how)
    x4, y4 = x[patients], y[patients]
    copies = robustness_curve({"forest": FOREST}, x4, y4, groups=patients, **how)
    taken_alone = robustness_curve({"forest": FOREST}, x4, y4, **how)
    errors = [name for name in once.table if name.endswith("_se") or "standard_error" in name]
    assert len(errors) == 11
    for name in errors:
        assert copies.table[name] == pytest.approx(once.table[name], rel=0.02), name
        half = np.sqrt(49 / 199) * once.table[name]
        assert taken_alone.table[name] == pytest.approx(half, rel=0.02), name
    result = copies.agreement("forest")
    assert result.standard_error == pytest.approx(copies.table["standard_error"][0], rel=1e-3)


def test_a_constant_model_is_last_and_the_papers_figure_shows_why():
    how = {"shift": NOISE, "powers": POWERS, "metrics": "agreement"}
    curve = robustness_curve(WITH_CONSTANT, X[TEST], **how)
    linear, flat = np.split(curve.table["pa"], 2)
    assert flat == pytest.approx(0, abs=1e-9)
    assert (linear > 1).all()
    linear, flat = np.split(curve.table["pa_uniform"], 2)
    assert flat == pytest.approx(np.log(10))
    assert (linear < np.log(10)).all()
    curve = robustness_curve(WITH_CONSTANT, X[TEST], prior="uniform", **how)
    assert curve.table["pa"][2:] == pytest.approx(np.log(10))


def test_a_module_that_returns_probabilities_is_named_in_a_warning():
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    logits = torch.nn.Linear(4, 3)
    nets = {
        "logits": logits,
        "probabilities": torch.nn.Sequential(logits, torch.nn.Softmax(1)),
        "logarithms": torch.nn.Sequential(logits, torch.nn.LogSoftmax(1)),
    }
    noise = GaussianNoise(0.1)
    with pytest.warns(UserWarning, match="estimators: probabilities: expected logits") as caught:
        table = robustness_curve(nets, rows, shift=noise).to_frame()
    assert len(caught) == 1
    pa = table.set_index("estimator")["pa"]
    assert pa["logits"] == pytest.approx(pa["logarithms"], abs=1e-3)


VECTOR = np.linspace(0.05, 0.15, 10)


@pytest.mark.parametrize("prior", ["uniform", "marginal", VECTOR], ids=type)
def test_the_uniform_prior_is_solved_once_beside_others(prior, monkeypatch):
    import pa_select.shifts.shifted_outputs as module

    seen, solve = [], module.agreements

    def counted(*args, **options):
        seen.append(options["prior"])
        return solve(*args, **options)

    monkeypatch.setattr(module, "agreements", counted)
    arguments = {"shift": NOISE, "powers": POWERS, "metrics": "agreement"}
    curve = robustness_curve(MODELS, X[TEST], prior=prior, **arguments)
    assert seen[0] is curve.prior is prior
    assert seen[1:] == ([] if isinstance(prior, str) and prior == "uniform" else ["uniform"])
    result = curve.agreement("forest", 0.4)
    a, b = (class_scores(FOREST, x)[0] for x in (X[TEST], NOISE(X[TEST], power=0.4).X))
    assert result.score == pytest.approx(posterior_agreement(a, b, prior=prior).score, abs=1e-5)
    assert curve.table["pa"][3] == pytest.approx(result.score, abs=1e-9)
    assert curve.table["pa_uniform"][3] == pytest.approx(posterior_agreement(a, b).score, abs=1e-6)


def test_agreement_of_one_row(curve):
    row = rows_of(curve)[4]  # linear, 0.4, 0.5
    result = curve.agreement("linear", 0.4, 0.5)
    assert result.score == pytest.approx(row["pa"], abs=1e-12)
    rounded = curve.agreement("linear", 0.4 * (1 + 1e-12), 0.5)
    assert rounded.score == pytest.approx(result.score, abs=1e-9)
    with pytest.raises(ValueError, match=r"power: expected one of \[0.1, 0.4\], got 0.2"):
        curve.agreement("linear", 0.2)


def test_table_and_copies(curve):
    frame = curve.to_frame()
    assert list(frame) == list(curve.table)
    assert len(frame) == 12
    again = pickle.loads(pickle.dumps(curve))
    pd.testing.assert_frame_equal(again.to_frame(), frame)


def test_each_output_is_computed_once(monkeypatch, capsys):
    import pa_select.shifts.shifted_outputs as module

    seen, shifts = [], []

    def counted(estimator, rows):
        seen.append(estimator)
        return class_scores(estimator, rows)

    class Counted(GaussianNoise):
        def _shift(self, *args):
            shifts.append(args[-1])
            return super()._shift(*args)

    monkeypatch.setattr(module, "comparable_scores", counted)

    robustness_curve(MODELS, X[TEST], shift=Counted(), powers=POWERS, ratios=RATIOS, verbose=1)
    assert len(seen) == 4
    assert shifts == POWERS  # the same rows for every estimator
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 4
    assert told[0].startswith("[1/4] linear, power 0.1: ")


def test_without_labels_and_with_one_estimator():
    curve = robustness_curve(SVC().fit(X[TRAIN], Y[TRAIN]), X[TEST], shift=NOISE)
    assert curve.estimators == ["SVC"]
    assert curve.powers == [NOISE.scale]
    assert set(curve.table) == {
        *("estimator", "power", "ratio", "n_pairs", "mean_norm", "success_rate"),
        *("pa", "beta", "standard_error", "gap", "pa_change", "afr_pred"),
        *("pa_uniform", "standard_error_uniform", "pa_change_se", "afr_pred_se"),
        *("kl", "kl_se", "wasserstein", "wasserstein_se"),
    }
    assert curve.agreement().score == pytest.approx(curve.table["pa"][0], abs=1e-12)
    assert curve.n_classes == 10
    binary = LogisticRegression().fit(X[TRAIN], Y[TRAIN] > "digit 4")
    both = robustness_curve([LINEAR, binary], X[TEST], shift=NOISE, metrics="posterior")
    assert both.n_classes is None
    two = robustness_curve([LINEAR, LINEAR, FOREST], X[TEST], shift=NOISE, metrics="posterior")
    names = ["LogisticRegression 1", "LogisticRegression 2", "RandomForestClassifier"]
    assert two.estimators == names
    assert "pa" not in two.table


def test_batches_do_not_change_the_results(curve, monkeypatch):
    import pa_select.shifts.shifted_outputs as module

    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1)
    arguments = {"shift": NOISE, "powers": POWERS, "ratios": RATIOS, "random_state": 7}
    again = robustness_curve(MODELS, X[TEST], Y[TEST], **arguments)
    np.testing.assert_allclose(again.table["pa"], curve.table["pa"], atol=1e-9)


def test_attacks_are_aimed_at_each_estimator_and_come_by_norm():
    other = LogisticRegression(C=1e-3).fit(X[TRAIN], Y[TRAIN])
    models = {"linear": LINEAR, "plain": other}
    ratios = np.linspace(0, 1, 6)
    how = {"shift": FMN(2, steps=40), "ratios": ratios, "order": "norm"}
    curve = robustness_curve(models, X[TEST], Y[TEST], **how)
    assert curve.powers == [np.inf]
    for name, model in models.items():
        first, *_, last = rows = [row for row in rows_of(curve) if row["estimator"] == name]
        assert (np.diff([row["mean_norm"] for row in rows[1:]]) > 0).all()
        assert first["afr_true"] == pytest.approx(model.score(X[TEST], Y[TEST]))
        assert last["afr_true"] == pytest.approx(1 - last["success_rate"])
        assert last["success_rate"] > 0.95
        assert first["pa"] > last["pa"]
    # Rows for which nothing was found come last, not first with their norm of 0.
    limited = robustness_curve(LINEAR, X[TEST], Y[TEST], powers=0.3, **how)
    rates = limited.table["success_rate"][1:]
    assert rates[0] == 1
    assert (np.diff(rates) <= 0).all()
    assert rates[-1] < 0.9


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"estimators": {}}, ValueError, "estimators: expected at least one, got none"),
        ({"shift": 3}, TypeError, "shift: expected a shift, a callable"),
        ({"metrics": ["accuracy"], "y": None}, ValueError, "y: expected a value for the metric"),
        ({"y": np.full(150, "ten")}, ValueError, "y: expected classes of linear, .* got .*'ten'"),
    ],
)
def test_what_does_not_fit_is_told_before_the_work(arguments, error, message, monkeypatch):
    import pa_select.shifts.shifted_outputs as module

    def too_late(*args):
        pytest.fail("began to work")

    monkeypatch.setattr(module, "comparable_scores", too_late)
    given = {"estimators": MODELS, "X": X[TEST], "y": Y[TEST], "shift": NOISE} | arguments
    with pytest.raises(error, match=message):
        robustness_curve(given.pop("estimators"), given.pop("X"), given.pop("y"), **given)


def test_a_classifier_without_gradients_fails_alone():
    with pytest.warns(UserWarning, match="1 of 2 estimators failed.* forest .*torch module"):
        curve = robustness_curve(MODELS, X[TEST], Y[TEST], shift=FGSM())
    np.testing.assert_array_equal(np.isnan(curve.table["pa"]), [False, True])
    with pytest.raises(TypeError, match="^estimators: RandomForest.*expected a torch module"):
        robustness_curve(FOREST, X[TEST], shift=FGSM())
