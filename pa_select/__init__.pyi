"""The public names, each with the room that has it: `__init__.py` reads them from here."""

from pa_select.agreement import PosteriorAgreement as PosteriorAgreement
from pa_select.agreement import compare_agreement as compare_agreement
from pa_select.agreement import confidence_interval as confidence_interval
from pa_select.agreement import pa_kernel as pa_kernel
from pa_select.agreement import posterior_agreement as posterior_agreement
from pa_select.agreement import regression_agreement as regression_agreement
from pa_select.model_selection import CandidatePosterior as CandidatePosterior
from pa_select.model_selection import PACommittee as PACommittee
from pa_select.model_selection import PARandomizedSearchCV as PARandomizedSearchCV
from pa_select.model_selection import PASearchCV as PASearchCV
from pa_select.model_selection import candidate_posterior as candidate_posterior
from pa_select.model_selection import new_site_interval as new_site_interval
from pa_select.model_selection.pa_scorer import PAScorer as PAScorer
from pa_select.model_selection.pa_scorer import pa_scorer as pa_scorer
from pa_select.plotting import AgreementCurveDisplay as AgreementCurveDisplay
from pa_select.plotting import PASearchDisplay as PASearchDisplay
from pa_select.plotting import RobustnessCurveDisplay as RobustnessCurveDisplay
from pa_select.scores import class_scores as class_scores
from pa_select.shifts import robustness_curve as robustness_curve
from pa_select.site_labels import FewLabels as FewLabels
from pa_select.training import PAEarlyStopping as PAEarlyStopping
from pa_select.training import PAScoring as PAScoring
from pa_select.training import PosteriorAgreementLoss as PosteriorAgreementLoss
from pa_select.two_sites import SiteAdapter as SiteAdapter
from pa_select.two_sites import expected_score as expected_score
from pa_select.two_sites import expected_scorer as expected_scorer
from pa_select.two_sites import plan_pairs as plan_pairs

__all__: list[str]
__version__: str
