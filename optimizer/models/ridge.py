"""Ridge regression whose rows err differently: in a second round they weigh by what the first left.

Sources: Hoerl & Kennard, Technometrics 12(1) (1970); Carroll & Ruppert, "Transformation and Weighting in Regression"
(1988), section 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_DEVIATION = 0.01  # standard deviation of a row's error


def ridge(design: Array, y: Array, kinds: NDArray[Any], prior: Array, own: int) -> tuple[Array, Array]:
    """Coefficients of the columns of ``design`` (n, k) and their standard errors, both (k,).

    ``kinds``: (n,), rows of one kind err alike.  ``prior``: (k,), standard deviations of the coefficients around 0
    before anything is known.  ``own``: the first so many columns cost a kind that has them a degree of freedom; the
    others are shared by all.
    """
    deviation = np.full(len(y), 0.1)
    for _ in range(2):
        weighted = design / deviation[:, None]
        covariance = np.linalg.inv(weighted.T @ weighted + np.diag(prior**-2.0))
        coefficients = covariance @ (weighted.T @ (y / deviation))
        residuals = y - design @ coefficients
        for kind in np.unique(kinds):
            here = kinds == kind
            free = max(1, int(here.sum()) - int(np.count_nonzero(design[here, :own].any(axis=0))))
            deviation[here] = max(MIN_DEVIATION, math.sqrt(float(residuals[here] @ residuals[here]) / free))
    return coefficients, np.sqrt(np.diag(covariance))
