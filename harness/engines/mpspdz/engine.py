"""The engine for the user's build of MP-SPDZ."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from fairshares.harness.engines.compiled import CompiledJob, MachineOptions, options_of
from fairshares.harness.engines.engine import RING_NAMES, Engine, EnginePart, PartyCosts
from fairshares.harness.engines.execution import Job, PhaseCosts, PreparedJob
from fairshares.harness.engines.mpspdz.compiler import (
    Bytecode,
    Installation,
    compile_options,
    compile_program,
    counted,
    find_installation,
    is_cached,
    libraries_of,
)
from fairshares.harness.engines.mpspdz.peer_certificates import ENVIRONMENT, LIBRARY, asking_library
from fairshares.harness.engines.parties.config import VirtualMachine
from fairshares.harness.engines.parties.layouts import ReplicatedShares
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.errors import CompileError, UnsupportedError
from fairshares.harness.security_models import SecurityModel

# A machine's own files of shares: their first bytes, and the order of a party's shares in each value, as
# indices into `fairshares.harness.inputs.shares.held_by`.
_PERSISTENCE = {
    "ps-rep-ring-party.x": (b"replicated Z2^64", (1, 0)),
    "rep4-ring-party.x": (b"Z2^64^3", (0, 1, 2)),
}
_RING_BITS = 64  # the bits of the ring, which such a file states

# Lines in which a machine reports its costs.
_TIME = re.compile(r"Time = ([\d.e+-]+) seconds")
_SENT = re.compile(r"Data sent = ([\d.e+-]+) MB in ~(\d+) rounds")
_AMOUNT = r"([\d.e+-]+) seconds(?: \(([\d.e+-]+) MB, (\d+) rounds\))?"
_PHASES = re.compile(
    rf"(Spent|\d+ threads spent a total of) {_AMOUNT} on the online phase(?: and|,) {_AMOUNT} on the "
    "preprocessing/offline phase"
)
_OF_ONE_THREAD = (
    "Spent"  # begins that line; of several threads it has their sums, which are no time by a clock
)
_TIMER = re.compile(rf"Time(\d+) = {_AMOUNT}")


class MpSpdzEngine(Engine):
    """Runs MP-SPDZ's compiler and virtual machines."""

    name = "mp-spdz"
    compiles = True
    connects_down = True

    def version(self) -> str | None:
        installation = find_installation()
        return installation.version if isinstance(installation, Installation) else None

    def availability(self, model: SecurityModel) -> str | None:
        installation = find_installation()
        if isinstance(installation, str):
            return installation
        return installation.fault(str(model.virtual_machine))

    def fault_of_links(self, model: SecurityModel) -> str | None:
        asking = self._asking_library(model)
        return asking if isinstance(asking, str) else None

    def _asking_library(self, model: SecurityModel) -> Path | str:
        """Return the library that makes machines ask for certificates, or a sentence on why there is none."""
        installation = find_installation()
        if isinstance(installation, str):
            return installation
        if model.is_bare:
            return f"{model.name} runs as it comes, and asks peers for no certificate."
        try:
            return asking_library(
                installation.home / str(model.virtual_machine), model.parties, options_of(model)
            )
        except (CompileError, UnsupportedError) as error:
            return str(error)

    def common_name(self, party: int) -> str:
        return f"P{party}"

    def program_hash(self, job: Job, model: SecurityModel) -> str:
        job.check_parties(model)
        installation = find_installation()
        version = installation.full_version if isinstance(installation, Installation) else ""
        return program_hash(job, (*compile_options(job, model), version))

    def is_compiled(self, job: Job, model: SecurityModel) -> bool:
        return is_cached(self.program_hash(job, model))

    def _program(self, job: Job, model: SecurityModel) -> PreparedJob:
        installation = find_installation()
        if isinstance(installation, str):
            raise UnsupportedError(installation)  # it is gone since the engine was asked whether it is there
        if isinstance(job, CompiledJob):
            options: tuple[str, ...] = ()
            bytecode = Bytecode(job.programs, job.program.name, job.digest, compile_s=0.0, estimate="")
            run_options = job.program.options
        else:
            options = compile_options(job, model)
            bytecode = compile_program(job, installation.home, installation.full_version, options)
            run_options = machine_options(job, model, bytecode.estimate)
        # -OF . prints opened values at every party, so that their agreement can be checked.
        machine = installation.home / str(model.virtual_machine)
        command = [str(machine), "-ip", "hosts", "-v", "-OF", "."]
        command += run_options.words(model)
        command.append(bytecode.name)
        links = {"Programs": str(bytecode.programs)}
        environment: dict[str, str] = {}
        fault: str | None = None
        library = self._asking_library(model)
        if isinstance(library, str):  # why there is none
            fault = library
        else:
            links[LIBRARY] = str(library)
            environment = ENVIRONMENT
        return PreparedJob(
            job=job,
            model=model,
            engine_version=installation.version,
            program_hash=bytecode.program_hash,
            compile_options=options,
            compile_s=bytecode.compile_s,
            command=tuple(command),
            libraries=libraries_of(str(machine)),
            links=links,
            environment=environment,
            fault_of_links=fault,
        )

    def _part(self, prepared: PreparedJob, party: int) -> EnginePart:
        ring = prepared.model.ring
        machine, *words = prepared.command
        reads = [machine]
        reads += prepared.links.values()
        reads += prepared.libraries
        return EnginePart(
            engine=VirtualMachine(
                argv=(machine, "-p", str(party), *words),
                environment=dict(prepared.environment),
                reads_words_of=RING_NAMES[ring.name] if ring.words > 1 else None,
            ),
            reads=tuple(reads),
            links=prepared.links,
            replicated=_replicated_shares(prepared.model),
        )

    def _costs(self, lines: Sequence[str]) -> PartyCosts:
        # The machine's own lines come last, after lines that a program may print.
        (seconds,) = _matches(_TIME, lines)[-1]
        megabytes, rounds = _matches(_SENT, lines)[-1]
        phases: dict[str, PhaseCosts] = {}
        online_s: float | None = None
        offline_s: float | None = None
        found = _matches(_PHASES, lines)
        if found:
            whose, *amounts = found[-1]
            online = _phase(amounts[:3])
            offline = _phase(amounts[3:])
            phases = {"online": online, "offline": offline}
            if whose == _OF_ONE_THREAD:
                online_s = online.seconds
                offline_s = offline.seconds
        for number, *amount in _matches(_TIMER, lines):
            phases[f"timer_{number}"] = _phase(amount)
        return PartyCosts(
            float(seconds), round(float(megabytes) * 1e6), int(rounds), online_s, offline_s, phases
        )


def _phase(amount: Sequence[str | None]) -> PhaseCosts:
    """Return the costs of a phase, from its seconds, and its megabytes and rounds unless nothing was sent.

    The seconds may be the difference of two clocks, which is below 0 at times; then they are 0.
    """
    seconds, megabytes, rounds = amount
    not_negative = max(0.0, float(seconds or 0))
    return PhaseCosts(not_negative, round(float(megabytes or 0) * 1e6), int(rounds or 0))


def _matches(pattern: re.Pattern[str], lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the groups of each line that begins with a pattern."""
    found = [pattern.match(line) for line in lines]
    return [match.groups() for match in found if match is not None]


def machine_options(job: Job, model: SecurityModel, estimate: str) -> MachineOptions:
    """Return the options with which a model's machine runs a job, as the compiler's estimate has it."""
    batch = job.batch(model)
    if model.virtual_machine != "spdz2k-party.x":
        return MachineOptions(batch=batch)
    if model.fixed_batch is None:
        batch = batch_that_works(batch or 1000, estimate)  # its own choice without -b
    if model.is_bare:
        return MachineOptions(batch=batch)
    usual = options_of(model)
    working = options_that_work(usual, estimate)
    return MachineOptions(
        batch=batch,
        statistical_security=None if working == usual else int(working[working.index("-SP") + 1]),
    )


def _replicated_shares(model: SecurityModel) -> ReplicatedShares | None:
    """Return how a machine's own file of shares lies, None if the model replicates none."""
    known = _PERSISTENCE.get(str(model.virtual_machine))
    if known is None:
        return None
    name, order = known
    kind = name + _RING_BITS.to_bytes(4, "little")
    return ReplicatedShares(head=len(kind).to_bytes(8, "little") + kind, order=order)


def batch_that_works(batch: int, estimate: str) -> int:
    """Return the largest size of batches up to `batch` with which spdz2k-party.x does not abort.

    An assertion fails if the machine makes 14 modulo 16 values at once (docs/upstream). The machine makes a
    batch plus 1. It also makes daBits: the program's n, in equal parts that fit into a batch, plus 41. It
    takes the fewest of 1 to 10 parts that fit, or else a whole batch.
    [test: tests/programs/test_batches.py]
    """
    dabits = counted(estimate).get("integer dabits", 0)
    for size in range(batch, 0, -1):
        aborts = (size + 1) % 16 == 14 or (_dabits_at_once(dabits, size) + 41) % 16 == 14
        if not aborts:
            return size
    raise AssertionError("batches of a single value always work")


def _dabits_at_once(dabits: int, size: int) -> int:
    """Return how many daBits a machine makes at once, as `batch_that_works` has it."""
    for parts in range(1, 11):
        part = math.ceil(dabits / parts)
        if part <= size:
            return part
    return size


def options_that_work(options: Sequence[str], estimate: str) -> tuple[str, ...]:
    """Return the options with which spdz2k-party.x does not abort.

    If n + 1, for a party's n inputs, is 14 modulo 16, the assertion of `batch_that_works` fails at 48 bits of
    security, but not at 64, which is slower.
    [test: tests/programs/test_batches.py]
    """
    of_parties = [n for what, n in counted(estimate).items() if what.startswith("integer inputs from player")]
    if any((n + 1) % 16 == 14 for n in of_parties):
        return tuple("64" if word == "48" else word for word in options)
    return tuple(options)
