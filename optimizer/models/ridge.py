"""Ridge regression for rows with different errors: a second round weights them by the first round's residuals.

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
    """Return the coefficients of the columns of ``design`` (n, k) and their standard errors, both (k,).

    ``y``: (n,), the response.  ``kinds``: (n,), rows of one kind have errors of one size.  ``prior``: (k,), prior
    standard deviations of the coefficients around 0.  ``own``: number of leading columns that cost a kind that has
    them a degree of freedom; all kinds share the others.
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
