"""A few labels at a new site: which rows to label, and how accurate each model is there."""

from pa_select.site_labels.few_labels import FewLabels

__all__ = ["FewLabels"]
