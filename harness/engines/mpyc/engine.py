"""The embedded engine."""

from collections.abc import Sequence
from importlib.metadata import version

from fairshares.harness.engines.engine import Engine, EnginePart, PartyCosts
from fairshares.harness.engines.execution import Job, PreparedJob
from fairshares.harness.engines.mpyc.installed import fault_of_installation
from fairshares.harness.engines.parties.config import Embedded
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.party_reports import Costs, reports_in
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.spec import InputForm, ProtocolSpec


class EmbeddedEngine(Engine):
    """An interpreter of programs of the portable subset (`names.PORTABLE`) on MPyC, a process per party.

    Guarantees: passive security against fewer than half of the parties, with a statistical distance of at
    most 2^-b per compared integer: 61 with three parties, less with more (`bits_of_masks`). Parties on one
    machine listen on 127.0.0.1 only; connections need the run's certificates.
    [test: tests/commands/test_parties.py]
    """

    name = "embedded"
    compiles = False
    connects_down = False

    def version(self) -> str:
        return f"MPyC {version('mpyc')}"

    def availability(self, model: SecurityModel) -> str | None:  # noqa: ARG002
        return fault_of_installation()

    def refusal(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        if not spec.portable:
            return f"{spec.name} uses features that only MP-SPDZ has; choose one of its models."
        if not form.path.portable:
            return f"Input path {form.path.name!r} needs MP-SPDZ; choose one of its models."
        return super().refusal(spec, model, form)

    def common_name(self, party: int) -> str:
        return f"MPyC party {party}"

    def program_hash(self, job: Job, model: SecurityModel) -> str:
        job.check_parties(model)
        return program_hash(job, (self.version(),))

    def _program(self, job: Job, model: SecurityModel) -> PreparedJob:
        return PreparedJob(job, model, self.version(), self.program_hash(job, model))

    def _part(self, prepared: PreparedJob, party: int) -> EnginePart:  # noqa: ARG002
        job = prepared.job
        model = prepared.model
        assert model.mask_bits is not None, "the model masks what it compares"
        source = str(job.source.resolve())
        return EnginePart(
            engine=Embedded(
                program=source,
                arguments=(job.spec.name, *job.arguments),
                threshold=model.corruptions,
                security_bits=model.mask_bits,
            ),
            reads=(source,),
            packages=("mpyc",),
        )

    def _costs(self, lines: Sequence[str]) -> PartyCosts:
        reported = [report for report in reports_in(lines) if isinstance(report, Costs)]
        last = reported[-1]  # the engine's own, after lines that a program may print
        return PartyCosts(last.seconds, last.sent_bytes)
