"""Types of what calls take. Modules import it for type checkers alone, as its libraries take time to load."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

import numpy.typing as npt
from narwhals.stable.v2.typing import IntoFrame

from fairshares.harness.training.session import Number

Records = IntoFrame | Mapping[str, npt.ArrayLike] | Path | str | None
Column = npt.ArrayLike | IntoFrame | str | None
Budget = Number | tuple[Number, Number] | None
Shares = int | Sequence[str] | Mapping[str, Number]
Domain = Mapping[str, npt.ArrayLike]
Features = Mapping[str, Mapping[str, npt.ArrayLike]]

Argument = Hashable | Records | Column | Budget | Shares | Domain | Features
"""Any argument of a call. Each is read by its field, in `harness.request`, which says what it may be."""
