"""The manifest of a run, which `manifest.json` holds: the computation, its parties, its loss and its cost.

`docs/reference/files.md` says what the fields mean. Files that version 1.0 wrote are read as before. Fields
that later versions add are ignored.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from fairshares.harness.bounds import Name, NotNegative, NumberOfParties, Positive, Seconds, Share, Size
from fairshares.harness.computation import Computation, HostsRun, Preprocessing
from fairshares.harness.errors import ResultFileError
from fairshares.harness.privacy.ledger.stated import StatedCharge
from fairshares.harness.privacy.statement import PrivacyStatement
from fairshares.harness.security_models import get_model
from fairshares.harness.stated_privacy import SecurityBits, StatedPrivacy
from fairshares.harness.system.documents import as_type, read_json
from fairshares.harness.system.result_files import not_result, result_path

T = TypeVar("T")

MANIFEST = "manifest.json"
SAMPLES = "noise"  # the task that reveals samples of noise
SIGNATURES = "signatures.json"  # beside it, if hosts signed the results


class Environment(Struct, frozen=True, kw_only=True):
    """The machine and the versions that wrote a manifest; `load_average` is over 1, 5 and 15 minutes."""

    time: str
    python: str
    platform: str
    cores: Size | None
    load_average: Annotated[list[NotNegative], Meta(max_length=3)]
    packages: dict[str, str]


class StatedInputs(Struct, frozen=True, kw_only=True):
    """The public numbers of a run's inputs."""

    clients: Size
    uploads: Size | UnsetType = UNSET
    max_count: Size | UnsetType = UNSET
    uploads_sha256: str | UnsetType = UNSET
    admission: str | UnsetType = UNSET
    records: Size | UnsetType = UNSET
    cap: Size | UnsetType = UNSET
    excluded_uploads: Size | UnsetType = UNSET
    excluded_because: dict[str, Size] | UnsetType = UNSET
    in_training: Size | UnsetType = UNSET


class SampleInputs(Struct, frozen=True, kw_only=True):
    """The public number of a run that reveals samples of noise."""

    samples: Size


class SamplePrivacy(Struct, frozen=True, kw_only=True):
    """The statement on samples of noise, which protect nothing once they are known."""

    warning: str
    mpc_statistical_security_bits: SecurityBits | None
    input_form: str
    revealed: list[str]
    public: list[str]


class Columns(Struct, frozen=True, kw_only=True):
    """The dtypes of the records' columns, as pandas writes them."""

    client_id: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    label: str | UnsetType = UNSET


class TrainingSettings(Struct, frozen=True, kw_only=True):
    """How a model was trained, and the loss of its rounds as approximate zCDP, rounded up."""

    rounds: Size
    clip: Positive
    largest_weight: Positive
    learning_rate: Positive
    momentum: NotNegative
    fairness: Name | UnsetType = UNSET
    fairness_share: Share | UnsetType = UNSET
    fairness_step: NotNegative | UnsetType = UNSET
    rho: NotNegative
    rho_delta: Share


class Manifest(Computation, frozen=True, kw_only=True):
    """The manifest of a release, or of several releases on the same people.

    If there are several, `parts` has their manifests, and the other fields are totals.
    """

    task: str
    privacy: StatedPrivacy
    inputs: StatedInputs
    ledger: StatedCharge | None
    environment: Environment
    schema: Literal[1] = 1
    request: dict[str, str] | UnsetType = UNSET
    columns: Columns | UnsetType = UNSET
    preprocessing: Preprocessing | UnsetType = UNSET
    hosts: HostsRun | UnsetType = UNSET
    training: TrainingSettings | UnsetType = UNSET
    parts: "dict[str, Manifest] | UnsetType" = UNSET

    @property
    def releases(self) -> "dict[str, Manifest]":
        """The manifests of its parts by name; none of a single release."""
        if isinstance(self.parts, UnsetType):
            return {}
        return self.parts


class SumManifest(Struct, frozen=True, kw_only=True):
    """The manifest of a chain's runs that were added up.

    `request` is the first run's, and `inputs` are the numbers of all runs together.
    """

    task: str
    security: str
    parties: NumberOfParties | UnsetType = UNSET
    engine: str
    engine_version: str
    request: dict[str, str]
    privacy: StatedPrivacy
    ledger: StatedCharge | None
    added_up: list[str]
    inputs: StatedInputs
    wall_s: Seconds
    environment: Environment
    schema: Literal[1] = 1


class CurvesOf(Struct, frozen=True, kw_only=True):
    """The run that revealed curves, and its manifest."""

    run: str
    manifest: Manifest


class ChoiceManifest(Struct, frozen=True, kw_only=True):
    """The manifest of thresholds that were chosen again on the curves of an earlier run, for no ε."""

    task: str
    opened: str
    curves_of: CurvesOf
    privacy: StatedPrivacy
    ledger: None
    wall_s: Seconds
    environment: Environment
    schema: Literal[1] = 1


class SampleManifest(Computation, frozen=True, kw_only=True):
    """The manifest of a run that reveals samples of noise."""

    task: str
    privacy: SamplePrivacy
    inputs: SampleInputs
    ledger: None
    environment: Environment
    schema: Literal[1] = 1


ReleaseManifest = Manifest | SumManifest
"""The manifest of revealed values."""

EarlierManifest = Manifest | SumManifest | ChoiceManifest
"""The manifest of a result that can be read."""


def read_manifest(directory: Path | str) -> EarlierManifest:
    """Return the manifest of an earlier run, given its directory or the file itself.

    Raises:
        ResultFileError: The manifest is missing, is of samples of noise, or is not as a run left it.
    """
    path = result_path(directory, MANIFEST)
    refusal = not_result(path, MANIFEST)
    fields = read_json(path, refusal)
    if isinstance(fields, dict) and fields.get("task") == SAMPLES:
        raise ResultFileError(
            f"{directory} is the result of {SAMPLES!r}; what can be read is that of a release, such as "
            "'weights'."
        )
    kind: type[Manifest] | type[SumManifest] | type[ChoiceManifest] = Manifest
    if isinstance(fields, dict) and "curves_of" in fields:
        kind = ChoiceManifest
    elif isinstance(fields, dict) and "added_up" in fields:
        kind = SumManifest
    return as_type(kind, fields, refusal, more=True)


def opened_by(manifest: EarlierManifest) -> ReleaseManifest:
    """Return the manifest of the run that revealed the values."""
    if isinstance(manifest, ChoiceManifest):
        return manifest.curves_of.manifest
    return manifest


def read_statement(manifest: ReleaseManifest) -> PrivacyStatement:
    """Return the privacy statement of a manifest.

    Raises:
        OptionError: This version has no such security model of so many parties.
    """
    releases = 1
    if isinstance(manifest, Manifest) and manifest.releases:
        releases = len(manifest.releases)
    model = get_model(manifest.security, given(manifest.parties))
    return PrivacyStatement(model, manifest.privacy, releases)


def given(value: T | UnsetType) -> T | None:
    """Return a field's value, None if the file has none."""
    if isinstance(value, UnsetType):
        return None
    return value
