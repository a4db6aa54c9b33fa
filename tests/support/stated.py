"""A made-up privacy statement, and the contents of files that state it."""

import json
from fractions import Fraction
from typing import Any

from harness.releases.base import Answer
from harness.releases.files import files_to_json
from harness.stated_privacy import StatedPrivacy
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit

PRIVACY = StatedPrivacy(
    epsilon=1.0,
    delta=0.0,
    epsilon_exact=Fraction(1),
    delta_exact=Fraction(0),
    epsilon_requested=Fraction(1),
    neighboring_relation=NeighboringRelation.REPLACE_ONE,
    privacy_unit=PrivacyUnit.RECORD,
    mpc_statistical_security_bits=40,
    input_form="split",
    input_path="shares",
    revealed=["noisy counts"],
    public=["number of clients"],
    end_to_end="",
)


def only_file(answer: Answer) -> dict[str, Any]:
    """Return the content of a result's one file, without the schema and the privacy."""
    (written,) = files_to_json(answer.files(PRIVACY)).values()
    fields: dict[str, Any] = json.loads(json.dumps(written, allow_nan=False))
    del fields["schema"], fields["privacy"]
    return fields
