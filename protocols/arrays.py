"""Names of the kinds of arrays that functions take and return."""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
