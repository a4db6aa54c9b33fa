"""The policy of a client: the runs that may use its upload."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from fairshares.harness.errors import ShareError
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonFields, JsonObject

_LIMITS = ("epsilon", "delta")
_NUMBER = re.compile("[0-9]{1,200}(/[1-9][0-9]{0,199})?")


@dataclass(frozen=True)
class ClientPolicy:
    """The runs that a task's clients, or one client, allow.

    Attributes:
        tasks: The releases that may use the upload.
        total: The most that all runs on it spend together.
        unit: The least privacy unit to protect.
    """

    tasks: tuple[str, ...]
    total: Guarantee
    unit: PrivacyUnit

    def covers(self, task: str, unit: PrivacyUnit, total: Guarantee) -> bool:
        """Return whether a run is allowed that brings the upload's loss to `total`."""
        within = total.epsilon <= self.total.epsilon and total.delta <= self.total.delta
        return task in self.tasks and unit in (self.unit, PrivacyUnit.CLIENT) and within

    def covers_all(self, other: "ClientPolicy") -> bool:
        """Return whether all that another policy allows is allowed."""
        return all(self.covers(task, other.unit, other.total) for task in other.tasks)

    def and_also(self, other: "ClientPolicy") -> "ClientPolicy":
        """Return the policy that allows what both allow."""
        epsilon = min(self.total.epsilon, other.total.epsilon)
        delta = min(self.total.delta, other.total.delta)
        either_protects_clients = PrivacyUnit.CLIENT in (self.unit, other.unit)
        return ClientPolicy(
            tuple(task for task in self.tasks if task in other.tasks),
            Guarantee(epsilon, delta),
            PrivacyUnit.CLIENT if either_protects_clients else PrivacyUnit.RECORD,
        )

    def to_json(self) -> JsonFields:
        """Return what `client_policy_from_json` reads."""
        return JsonFields(
            tasks=list(self.tasks),
            epsilon=str(self.total.epsilon),
            delta=str(self.total.delta),
            unit=str(self.unit),
        )


@dataclass(frozen=True)
class ClientPolicies:
    """The policies of the clients of some uploads.

    Most clients allow just what their task allows, so these take no memory beside the uploads' identities.

    Attributes:
        uploads: The identities of the uploads.
        common: The policy of each upload that is not in `own`.
        own: The policies of uploads whose clients allow less. Identities that are not in `uploads` have no
            effect.
    """

    uploads: Collection[str]
    common: ClientPolicy
    own: Mapping[str, ClientPolicy]

    def of(self, upload: str) -> ClientPolicy:
        """Return the policy of one of the uploads."""
        return self.own.get(upload, self.common)

    def among(self, uploads: Collection[str]) -> "ClientPolicies":
        """Return the policies of these uploads, all of which are in `uploads`."""
        return ClientPolicies(uploads, self.common, self.own)


def client_policy_from_json(fields: JsonObject, refusal: Refusal) -> ClientPolicy:
    """Return the policy in a file, or raise ShareError."""
    texts = [fields.get(name) for name in _LIMITS]
    if not all(isinstance(text, str) and _NUMBER.fullmatch(text) for text in texts):
        raise ShareError(
            f"{refusal.where}: epsilon and delta of a client's policy have to be rational numbers."
        )
    others = {name: value for name, value in fields.items() if name not in _LIMITS}
    return as_type(ClientPolicy, {"total": dict(zip(_LIMITS, texts, strict=True)), **others}, refusal)
