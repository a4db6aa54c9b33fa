"""Privacy statements of made-up releases, and the contents of files that state one."""

import json
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from msgspec import structs

from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.inputs.record_schema import DEFAULT_MAX_COUNT, Cap, RecordDomain
from fairshares.harness.pipeline.manifest_of_run import computation_of, environment
from fairshares.harness.privacy.manifest import Manifest, StatedInputs
from fairshares.harness.privacy.statement import PrivacyStatement, state_privacy
from fairshares.harness.releases.base import Answer
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import NeighboringRelation, NoisePlan, PrivacyUnit
from fairshares.protocols.spec import InputForm, ProtocolSpec

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


def statement_of(
    spec: ProtocolSpec,
    form: InputForm,
    model: SecurityModel,
    plan: NoisePlan,
    inferred: bool,
    *,
    asked: Fraction,
    cap: Cap | None = None,
    max_count: int = DEFAULT_MAX_COUNT,
    compared: int = 0,
) -> PrivacyStatement:
    """Return the statement of a release of two groups and labels, with any plan, also one that it has not."""
    release = SimpleNamespace(
        form=form,
        model=model,
        protect=SimpleNamespace(epsilon=asked),
        charged_with=None,
    )
    domain = RecordDomain(("a", "b"), ("0", "1"), max_count, inferred=inferred, cap=cap)
    prepared: Any = SimpleNamespace(release=release, plan=plan, domain=domain, program=spec)
    return state_privacy(prepared, compared)


def manifest_of(task: str, result: EngineResult, privacy: StatedPrivacy, inputs: StatedInputs) -> Manifest:
    """Return the manifest of an uncharged release that took four seconds."""
    return Manifest(
        **structs.asdict(computation_of(result, wall_s=4.0, share_s=0.125)),
        task=task,
        privacy=privacy,
        inputs=inputs,
        ledger=None,
        environment=environment(),
    )


def only_file(answer: Answer) -> dict[str, Any]:
    """Return the content of a result's one file, without the schema and the privacy."""
    (written,) = files_to_json(answer.files(PRIVACY)).values()
    fields: dict[str, Any] = json.loads(json.dumps(written, allow_nan=False))
    del fields["schema"], fields["privacy"]
    return fields
