"""Uploads for a task of their directory, what clients allow, and what a source of uploads knows of a run."""

import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.sources import CountableUploads, RunContext
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.uploads.client import share as sealed
from fairshares.harness.uploads.policy import ClientPolicies, ClientPolicy
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import InputForm
from tests.support.command import succeed
from tests.support.envelopes import made_task


def allowing(
    tasks: tuple[str, ...], epsilon: str, delta: str, unit: PrivacyUnit = PrivacyUnit.RECORD
) -> ClientPolicy:
    """Return a policy. Args: epsilon, delta: as files have them."""
    return ClientPolicy(tasks, Guarantee(Fraction(epsilon), Fraction(delta)), unit)


def policies_of(own: Mapping[str, ClientPolicy]) -> ClientPolicies:
    """Return the policies of uploads, each of which has its own."""
    return ClientPolicies(tuple(own), allowing((), "0", "0"), own)


ALL = allowing(("weights", "count", "confusion", "thresholds", "gap", "cap"), "1000", "1")


def trial(
    domain: RecordDomain,
    form: InputForm,
    model: SecurityModel,
    out: Path,
    *,
    policy: ClientPolicy = ALL,
    least: int = 1,
) -> Task:
    """Return the task of a directory; it is made if it is not there, with all parties' keys beside it."""
    file = out / "task.json"
    if not file.exists():
        made = made_task(out, form.name, form.path.name, model.name, domain=domain, least=least)
        file.write_bytes(replace(made, policy=policy.to_json()).text)
    return read_task(file)


def share(
    records: ClientRecords,
    form: InputForm,
    model: SecurityModel,
    out: Path,
    policy: ClientPolicy | None = None,
) -> str:
    """Write one client's upload to `out/party-<i>/`, for the task that is there; return its identity."""
    (identity,) = sealed(trial(records.domain, form, model, out), records, out, policy)
    return identity


def share_all(records: ClientRecords, form: InputForm, model: SecurityModel, out: Path) -> list[str]:
    """Write an upload of each client, as `share`; return their identities."""
    return sealed(trial(records.domain, form, model, out), records, out)


def trial_by_command(directory: str, model: SecurityModel, *options: str, cwd: Path) -> None:
    """Make keys of all parties, and a task, in one directory. Args: options: of the task."""
    until = ("--until", "2999-01-01")
    for i in range(model.parties):
        succeed("keys", "--directory", f"{directory}/keys-{i}", "--sealing", "x25519", *until, cwd=cwd)
    parties = ",".join(f"{directory}/keys-{i}/party.json" for i in range(model.parties))
    made = ("--parties", parties, "--least-uploads", "1", "--security", model.name, *until)
    succeed("task", f"{directory}/task.json", *made, *options, cwd=cwd)


def aggregates_by_command(directory: str, model: SecurityModel, out: str, cwd: Path, *listing: str) -> str:
    """Have each party list and count the uploads of a directory; return what the commands printed.

    Args: listing: more options of the lists.
    """
    said = ""
    for command, what in (("uploads", listing), ("aggregate", ("--uploads", out))):
        for i in range(model.parties):
            party = ("--task", f"{directory}/task.json", "--party", str(i), "--keys", f"{directory}/keys-{i}")
            files = ("--shares", directory, *what, "--out", f"{out}/party-{i}.{command}")
            said += succeed(command, *party, *files, cwd=cwd)
    return said


def to_hosts(shares: Path, hosts: Sequence[Path]) -> None:
    """Give each host the task, its party's keys and its uploads, as its owner would."""
    for i, host in enumerate(hosts):
        shutil.copy(shares / "task.json", host / "task.json")
        shutil.copytree(shares / f"keys-{i}", host / "sealing", dirs_exist_ok=True)
        shutil.copytree(shares / f"party-{i}", host / "shares", dirs_exist_ok=True)


class AllAdmitted(CountableUploads):
    """Leaves no upload out of a run."""

    def uncovered(self, domain: RecordDomain, policies: ClientPolicies) -> Collection[str]:
        return ()

    def counted(self, uploads: Iterable[str]) -> Collection[str]:
        return ()


ALL_ADMITTED = AllAdmitted()


def context(release: Request, scratch: Path, countable: CountableUploads = ALL_ADMITTED) -> RunContext:
    """Return what a source knows of a run that shows no progress."""
    return RunContext(release, scratch, lambda step: None, 600.0, countable)
