"""The types of arrays, by kind and number of axes.

On a GPU they are CuPy's, which have the same methods. NumPy's functions do not take thinc's types
of the same names.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats1d: TypeAlias = NDArray[np.floating]
Floats2d: TypeAlias = NDArray[np.floating]
Floats3d: TypeAlias = NDArray[np.floating]
FloatsXd: TypeAlias = NDArray[np.floating]
Ints1d: TypeAlias = NDArray[np.integer]
Ints2d: TypeAlias = NDArray[np.integer]
