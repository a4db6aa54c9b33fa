"""The engine for the user's build of MP-SPDZ."""

import re
from collections.abc import Sequence
from pathlib import Path

from fairshares.harness.engines.base import Job, Prepared
from fairshares.harness.engines.engine import Engine, EnginePart, PartyCosts
from fairshares.harness.engines.mpspdz.compiler import (
    Installation,
    compile_options,
    compile_program,
    counted,
    find_installation,
    is_cached,
    libraries_of,
)
from fairshares.harness.engines.mpspdz.peer_certificates import ENVIRONMENT, LIBRARY, asking_library
from fairshares.harness.engines.parties.config import Machine
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
_RING_BITS = 64  # of the ring, which such a file states


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
        return (
            installation if isinstance(installation, str) else installation.fault(str(model.virtual_machine))
        )

    def fault_of_links(self, model: SecurityModel) -> str | None:
        asking = self._asking_library(model)
        return asking if isinstance(asking, str) else None

    def _asking_library(self, model: SecurityModel) -> Path | str:
        installation = find_installation()
        if isinstance(installation, str):
            return installation
        try:
            return asking_library(
                installation.home / str(model.virtual_machine), model.parties, _options(model)
            )
        except (CompileError, UnsupportedError) as error:
            return str(error)

    def common_name(self, party: int) -> str:
        return f"P{party}"

    def program_hash(self, job: Job, model: SecurityModel) -> str:
        job.check_parties(model)
        version = getattr(find_installation(), "full_version", "")  # a text says why there is none
        return program_hash(job, (*compile_options(job, model), version))

    def is_compiled(self, job: Job, model: SecurityModel) -> bool:
        return is_cached(self.program_hash(job, model))

    def _program(self, job: Job, model: SecurityModel) -> Prepared:
        installation = find_installation()
        assert isinstance(installation, Installation)  # as it is available
        options = compile_options(job, model)
        bytecode = compile_program(job, installation.home, installation.full_version, options)
        batch, run_options, library = job.batch(model), _options(model), self._asking_library(model)
        fault = library if isinstance(library, str) else None
        if model.virtual_machine == "spdz2k-party.x":
            batch = batch_that_works(batch or 1000, bytecode.estimate)  # its own choice without -b
            run_options = options_that_work(run_options, bytecode.estimate)
        return Prepared(
            job,
            model,
            installation.version,
            bytecode.program_hash,
            options,
            bytecode.compile_s,
            (
                str(installation.home / str(model.virtual_machine)),
                # -OF . prints opened values at every party, so that their agreement can be checked.
                *("-ip", "hosts", "-v", "-OF", "."),
                *run_options,
                *(("-b", str(batch)) if batch else ()),
                bytecode.name,
            ),
            {"Programs": str(bytecode.programs)} | ({} if fault else {LIBRARY: str(library)}),
            {} if fault else ENVIRONMENT,
            fault,
        )

    def _part(self, prepared: Prepared, party: int) -> EnginePart:
        machine, *words = prepared.command
        return EnginePart(
            engine=Machine(argv=(machine, "-p", str(party), *words), environment=dict(prepared.environment)),
            reads=(machine, *prepared.links.values(), *libraries_of(machine)),
            links=prepared.links,
            replicated=_replicated_shares(prepared.model),
        )

    def _costs(self, lines: Sequence[str]) -> PartyCosts:
        seconds, sent, phases = (
            [match.groups() for line in lines if (match := re.match(pattern, line))]
            for pattern in (
                r"Time = ([\d.e+-]+) seconds",
                r"Data sent = ([\d.e+-]+) MB in ~(\d+) rounds",
                r"Spent ([\d.e+-]+) seconds .*?on the online phase and ([\d.e+-]+) seconds",
            )
        )
        megabytes, rounds = sent[-1]  # the machine's own come last, after lines that a program may print
        online, offline = map(float, phases[-1]) if phases else (None, None)
        if offline is not None:
            offline = max(0.0, offline)  # the difference of two clocks, which without preprocessing is near 0
        return PartyCosts(float(seconds[-1][0]), round(float(megabytes) * 1e6), int(rounds), online, offline)


def _options(model: SecurityModel) -> tuple[str, ...]:
    return (*(("-N", "2") if model.parties == 2 else ()), *model.run_options)


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

    An assertion fails if the machine makes 14 modulo 16 values at once (docs/upstream). It makes a batch plus
    one; and daBits, 41 plus a program's n, in the fewest equal parts, of 1 to 10, that fit into a batch, or
    else a batch.
    [test: tests/programs/test_batches.py]
    """
    dabits = counted(estimate).get("integer dabits", 0)

    def works(size: int) -> bool:
        parts = (-(-dabits // i) for i in range(1, 11))
        at_once = next((part for part in parts if part <= size), size)
        return 14 not in {(size + 1) % 16, (at_once + 41) % 16}

    return next(size for size in range(batch, 0, -1) if works(size))


def options_that_work(options: Sequence[str], estimate: str) -> tuple[str, ...]:
    """Return the options with which spdz2k-party.x does not abort.

    If n + 1, for a party's n inputs, is 14 modulo 16, the assertion of `batch_that_works` fails at 48 bits of
    security, but not at 64, which is slower.
    [test: tests/programs/test_batches.py]
    """
    aborts = any(
        n % 16 == 13 for what, n in counted(estimate).items() if what.startswith("integer inputs from player")
    )
    return tuple("64" if aborts and word == "48" else word for word in options)
