"""Model selection by posterior agreement.

Public names are loaded when they are first used, so that ``import pa_select`` costs
little and needs neither torch nor skorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pa_select.agreement import (
        AgreementMatrix,
        PosteriorAgreement,
        agreement_matrix,
        bootstrap,
        compare_agreement,
        pa_kernel,
        posterior_agreement,
    )
    from pa_select.scores import class_scores
    from pa_select.scoring import PAScorer, pa_scorer
    from pa_select.search import (
        GuardedSelection,
        PARandomizedSearchCV,
        PASearchCV,
        within_one_standard_error,
    )
    from pa_select.training import EpochSelector, PAEarlyStopping, PAScoring

__all__ = [
    "AgreementMatrix",
    "EpochSelector",
    "GuardedSelection",
    "PAEarlyStopping",
    "PARandomizedSearchCV",
    "PAScorer",
    "PAScoring",
    "PASearchCV",
    "PosteriorAgreement",
    "agreement_matrix",
    "bootstrap",
    "class_scores",
    "compare_agreement",
    "pa_kernel",
    "pa_scorer",
    "posterior_agreement",
    "within_one_standard_error",
]

_HOMES = {
    "AgreementMatrix": "agreement",
    "EpochSelector": "training",
    "GuardedSelection": "search",
    "PAEarlyStopping": "training",
    "PARandomizedSearchCV": "search",
    "PAScorer": "scoring",
    "PAScoring": "training",
    "PASearchCV": "search",
    "PosteriorAgreement": "agreement",
    "agreement_matrix": "agreement",
    "bootstrap": "agreement",
    "class_scores": "scores",
    "compare_agreement": "agreement",
    "pa_kernel": "agreement",
    "pa_scorer": "scoring",
    "posterior_agreement": "agreement",
    "within_one_standard_error": "search",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
