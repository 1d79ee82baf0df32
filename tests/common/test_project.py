"""What stands beside the package agrees with it: versions, workflows, targets of make."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import pa_select

ROOT = Path(pa_select.__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PYTHONS = [
    found[1]
    for line in PROJECT["project"]["classifiers"]
    if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
]
DEPENDENCIES = {r.name: r.specifier for r in map(Requirement, PROJECT["project"]["dependencies"])}
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


# Names that are gone; only the changelog says so, and what to use instead.
GONE = [
    *("AgreementCalibratedClassifier", "CalibrationUnderShiftDisplay", "HalvesAgreement"),
    *("pa_select.calibration", "doc:`calibration`", "calibration.csv", "study_calibration"),
    *("PairTrainingClassifier", "pair_training", "AssignmentPairing"),
    *("max_pairs", "partner=", " tie=", "(tie=", "of_ranked_average", "draw_objects"),
    *("bootstrap_agreement", "agreement_matrix", "AgreementMatrix", "RankCorrelationDisplay"),
    *("ConfidenceDisplay", "DecompositionDisplay", "model_selection.majority_rate"),
    *("pa_select.datasets", "pa_select.assessment", "pa_select.environments", "interop.optuna"),
    *("interop.foolbox", "agreement_objective", "CanonicalPairing", "IdPairing", "UniformNoise"),
    *("FeatureDropout", "Pixelate", "shifted_rows", "examples/plot_attacks", "examples/study_"),
    *("assessment.rank_correlation", "training.ERMNet", "training.AdversarialNet"),
    *("SelectionRule", "DataKind", "model_selection/kinds", "fold_scores_", "fold_rows_"),
    *("not_told_apart", "n_failed_splits", "rank_agreement", "rank_expected"),
]


def test_nothing_speaks_of_what_is_gone():
    places = [*ROOT.glob("*"), *(ROOT / ".ci").glob("*"), *(ROOT / "docs").glob("*")]
    for room in ("pa_select", "tests", "examples", "docs/figures"):
        places += (ROOT / room).rglob("*")
    kinds = {".csv", ".md", ".py", ".pyi", ".rst", ".toml", ".txt", ".yaml"}
    texts = {path for path in places if path.suffix in kinds or path.name == "Makefile"}
    texts -= {ROOT / "CHANGELOG.md", ROOT / "tests/common/test_project.py"}
    assert len(texts) > 400
    found = []
    for path in texts:
        name = path.relative_to(ROOT).as_posix()
        text = f"{name}\n{path.read_text(encoding='utf-8')}"
        found += [(name, gone) for gone in GONE if gone in text]
    assert found == []


def test_the_supported_pythons_are_the_same_everywhere():
    oldest, newest = PYTHONS[0], PYTHONS[-1]
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    for page in ("install", "contributing"):
        assert f"Python {oldest} or later" in (ROOT / "docs" / f"{page}.rst").read_text()
    assert f"{oldest} to {newest}" in (ROOT / "docs" / "install.rst").read_text()
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    for name in ("linux", "other-systems"):
        assert jobs[name]["strategy"]["matrix"]["python"] == [oldest, newest]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_that_there_are(path):
    steps = [s for job in yaml.safe_load(path.read_text())["jobs"].values() for s in job["steps"]]
    assert steps
    assert all(("uses" in step) != ("run" in step) for step in steps)
    commands = [line.split() for step in steps for line in step.get("run", "").splitlines()]
    called = {
        word
        for command, *words in commands
        if command == "make"
        for word in words
        if re.fullmatch("[a-z-]+", word)
    }
    assert called
    assert called <= TARGETS


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / ".ci/recipe.yaml").read_text())
    assert recipe["package"]["name"] == PROJECT["project"]["name"]
    assert recipe["context"] == {"version": pa_select.__version__, "python_min": PYTHONS[0]}
    python, *run = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    needed = {r.name: r.specifier for r in map(Requirement, run)}
    assert needed == {
        {"torch": "pytorch"}.get(name, name): versions for name, versions in DEPENDENCIES.items()
    }
    [builder] = map(Requirement, PROJECT["build-system"]["requires"])
    assert builder in map(Requirement, recipe["requirements"]["host"][1:])
    [(command, function)] = PROJECT["project"]["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{command} = {function}"]
    assert recipe["about"]["license"] == PROJECT["project"]["license"]


def test_the_oldest_versions_are_the_bounds():
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    oldest = {r.name: r.specifier for r in map(Requirement, (x for x in lines if x[:1] != "#"))}
    for name, versions in DEPENDENCIES.items():
        [bound] = [s.version for s in versions if s.operator == ">="]
        [tried] = [s.version for s in oldest[name]]
        # torch is not tried with its oldest version.
        assert Version(tried) == Version(bound) or name == "torch", name


def test_the_quick_tests_enter_each_room():
    quick = re.search(r"^QUICK = ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1]
    files = quick.replace("\\\n", " ").split()
    assert [file for file in files if not (ROOT / file).exists()] == []
    rooms = {path.parent.name for path in Path(pa_select.__file__).parent.glob("*/__init__.py")}
    assert rooms - {"utils"} <= {Path(file).parent.name for file in files}
