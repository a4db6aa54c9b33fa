"""Types of the names that calls take."""

from typing import Literal

Reweighing = Literal["kamiran-calders", "balanced", "label"]
ConstraintName = Literal[
    "equalized_odds",
    "equal_opportunity",
    "false_positive_rate_parity",
    "demographic_parity",
    "four_fifths",
    "accuracy_parity",
    "predictive_parity",
]
Objective = Literal["accuracy_score", "balanced_accuracy_score"]
NoiseKind = Literal["joint", "distributed", "distributed-gaussian"]
NoiseFamilyName = Literal["by-epsilon", "signed"]
Unit = Literal["record", "client"]
UnitOfRecords = Literal["record"]  # the unit of a release that has no contribution bound
Relation = Literal["add_or_remove_one", "replace_one", "zero_out_one"]
Security = Literal[
    "semi2k",
    "ring",
    "spdz2k",
    "sy-rep-ring",
    "ps-rep-ring",
    "rep4-ring",
    "shamir",
    "malicious-shamir",
    "mpyc",
]
