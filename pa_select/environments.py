"""The former name of `pa_select.shifts`: code that imports it works for two more releases."""

from __future__ import annotations

import sys
import warnings

from pa_select import shifts

warnings.warn(
    "pa_select.environments is now pa_select.shifts; the old name goes in two releases.",
    FutureWarning,
    stacklevel=2,
)
# The same module under both names, so that its classes are the same.
sys.modules[__name__] = shifts
