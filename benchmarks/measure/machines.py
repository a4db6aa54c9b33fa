"""Any virtual machine of MP-SPDZ, by its file's name, with its options: for programs of users' own.

The models of `fairshares.harness.security_models` are chosen and tuned machines, on which alone releases run.
A machine of this module runs a program as MP-SPDZ's own `Scripts/compile-run.py` does, except that its links
are encrypted wherever it can encrypt them.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct

from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.rings import FIELD, RING
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.spelling import similar

FILE_ENDING = "-party.x"
MOST_ON_ONE_MACHINE = 15  # each party takes a port of one block (`parties.supervisor.free_ports`)
_BITS = "64"  # the bits of integers, in every arithmetic


class Arithmetic(Enum):
    """The numbers that a machine computes with; the value completes "it computes"."""

    RING = "modulo a power of two"
    FIELD = "modulo a prime"
    BINARY = "on bits"
    GARBLED = "on bits, by garbled circuits"


# The options of MP-SPDZ's compiler that say how long integers are in each arithmetic. `-G` goes with `-B`.
_LENGTHS: dict[Arithmetic, tuple[str, ...]] = {
    Arithmetic.RING: ("-R", _BITS),
    Arithmetic.FIELD: ("-F", _BITS),
    Arithmetic.BINARY: ("-B", _BITS),
    Arithmetic.GARBLED: ("-G", "-B", _BITS),
}
# The same by each name of an option.
_ARITHMETIC_OF: dict[str, tuple[Arithmetic, ...]] = {
    "-R": (Arithmetic.RING,),
    "--ring": (Arithmetic.RING,),
    "-F": (Arithmetic.FIELD,),
    "--field": (Arithmetic.FIELD,),
    "-P": (Arithmetic.FIELD,),
    "--prime": (Arithmetic.FIELD,),
    "-B": (Arithmetic.BINARY, Arithmetic.GARBLED),
    "--binary": (Arithmetic.BINARY, Arithmetic.GARBLED),
    "-G": (Arithmetic.GARBLED,),
    "--garbled-circuit": (Arithmetic.GARBLED,),
}
_OF_LENGTH = ("-R", "--ring", "-F", "--field", "-P", "--prime", "-B", "--binary")
_OF_EXECUTION = ("-E", "--execute")
# Options of machines that a factor of its own sets.
_BY_FACTOR = {
    "-N": "parties",
    "--nparties": "parties",
    "-b": "batch_size",
    "--batch-size": "batch_size",
    "-B": "bucket_size",
    "--bucket-size": "bucket_size",
    "-S": "security_bits",
    "--security": "security_bits",
    "-SP": "security_bits",
    "--spdz2k-security": "security_bits",
}
# Options of machines that a run sets: how parties meet, and where they read, write and print.
_BY_RUN = frozenset(
    {
        "-p",
        "--player",
        "-ip",
        "--ip-file-name",
        "-h",
        "--hostname",
        "-pn",
        "--portnumbase",
        "--portnum",
        "-mp",
        "--my-port",
        "-ext-server",
        "--external-server",
        "-e",
        "--encrypted",
        "-u",
        "--unencrypted",
        "-IF",
        "--input-file",
        "-OF",
        "--output-file",
        "-I",
        "--interactive",
        "-F",
        "--file-preprocessing",
        "-f",
        "--file-prep-per-thread",
        "-m",
        "--memory",
        "-D",
        "--disk-memory",
        "-v",
        "--verbose",
    }
)


@dataclass(frozen=True)
class MachineKind:
    """A virtual machine as MP-SPDZ documents it.

    Attributes:
        arithmetic: The numbers that the machine computes with.
        adversary: "passive", "active" or "covert".
        fewest: The fewest parties.
        most: The most parties. The number is fixed where both are equal.
        majority: Whether most parties are honest; else all but one may collude.
        encrypts: The option that has it encrypt its links; "" if it always does, None if it never does.
        security: The option of its statistical security; None if it has no such parameter.
        beside: Why it does not run alone, in words; None if it does.
    """

    arithmetic: Arithmetic
    adversary: str
    fewest: int
    most: int
    majority: bool = True
    encrypts: str | None = ""
    security: str | None = None
    beside: str | None = None


def _of_three(arithmetic: Arithmetic, adversary: str, parties: int = 3) -> MachineKind:
    """Return a machine of three or four parties, of which one may be corrupt."""
    security = None if adversary == "passive" else "-S"
    return MachineKind(arithmetic, adversary, parties, parties, security=security)


def _of_shamir(arithmetic: Arithmetic, adversary: str) -> MachineKind:
    """Return a machine of any number of parties, of which fewer than half may be corrupt."""
    security = None if adversary == "passive" else "-S"
    return MachineKind(arithmetic, adversary, 3, MOST_ON_ONE_MACHINE, security=security)


def _of_no_majority(arithmetic: Arithmetic, adversary: str, security: str | None = None) -> MachineKind:
    """Return a machine of any number of parties, of which all but one may be corrupt."""
    if security is None and adversary != "passive":
        security = "-S"
    return MachineKind(
        arithmetic, adversary, 2, MOST_ON_ONE_MACHINE, majority=False, encrypts="-e", security=security
    )


_WITH_PREPARATION = "it reads from a second machine, which makes its preprocessing while it runs"

# Source: the tables of protocols in MP-SPDZ's README.md, and the machines' own lists of options.
# [test: tests/benchmarks/measure/test_machines.py]
MACHINES: dict[str, MachineKind] = {
    "replicated-ring": _of_three(Arithmetic.RING, "passive"),
    "brain": _of_three(Arithmetic.RING, "active"),
    "malicious-rep-ring": _of_three(Arithmetic.RING, "active"),
    "ps-rep-ring": _of_three(Arithmetic.RING, "active"),
    "sy-rep-ring": _of_three(Arithmetic.RING, "active"),
    "rep4-ring": _of_three(Arithmetic.RING, "active", parties=4),
    "astra": MachineKind(Arithmetic.RING, "passive", 2, 2, beside=_WITH_PREPARATION),
    "trio": MachineKind(Arithmetic.RING, "passive", 2, 2, beside=_WITH_PREPARATION),
    "semi2k": _of_no_majority(Arithmetic.RING, "passive"),
    "spdz2k": _of_no_majority(Arithmetic.RING, "active", security="-SP"),
    "dealer-ring": MachineKind(Arithmetic.RING, "passive", 3, MOST_ON_ONE_MACHINE, majority=False),
    "replicated-field": _of_three(Arithmetic.FIELD, "passive"),
    "malicious-rep-field": _of_three(Arithmetic.FIELD, "active"),
    "ps-rep-field": _of_three(Arithmetic.FIELD, "active"),
    "sy-rep-field": _of_three(Arithmetic.FIELD, "active"),
    "shamir": _of_shamir(Arithmetic.FIELD, "passive"),
    "atlas": _of_shamir(Arithmetic.FIELD, "passive"),
    "malicious-shamir": _of_shamir(Arithmetic.FIELD, "active"),
    "sy-shamir": _of_shamir(Arithmetic.FIELD, "active"),
    "semi": _of_no_majority(Arithmetic.FIELD, "passive"),
    "hemi": _of_no_majority(Arithmetic.FIELD, "passive", security="-S"),
    "temi": _of_no_majority(Arithmetic.FIELD, "passive", security="-S"),
    "soho": _of_no_majority(Arithmetic.FIELD, "passive", security="-S"),
    "mascot": _of_no_majority(Arithmetic.FIELD, "active"),
    "mama": _of_no_majority(Arithmetic.FIELD, "active"),
    "lowgear": _of_no_majority(Arithmetic.FIELD, "active"),
    "highgear": _of_no_majority(Arithmetic.FIELD, "active"),
    "cowgear": _of_no_majority(Arithmetic.FIELD, "covert"),
    "chaigear": _of_no_majority(Arithmetic.FIELD, "covert"),
    "replicated-bin": _of_three(Arithmetic.BINARY, "passive"),
    "malicious-rep-bin": _of_three(Arithmetic.BINARY, "active"),
    "ps-rep-bin": _of_three(Arithmetic.BINARY, "active"),
    "ccd": _of_shamir(Arithmetic.BINARY, "passive"),
    "malicious-ccd": _of_shamir(Arithmetic.BINARY, "active"),
    "semi-bin": _of_no_majority(Arithmetic.BINARY, "passive"),
    "tiny": _of_no_majority(Arithmetic.BINARY, "active"),
    "tinier": _of_no_majority(Arithmetic.BINARY, "active"),
    "yao": MachineKind(Arithmetic.GARBLED, "passive", 2, 2, majority=False, encrypts=None),
}

PartiesOfMachine = Annotated[int, Meta(ge=2, le=MOST_ON_ONE_MACHINE)]
BatchSize = Annotated[int, Meta(ge=1, le=10**7)]
BucketSize = Annotated[int, Meta(ge=3, le=5)]
MachineSecurityBits = Annotated[int, Meta(ge=1, le=128)]
OptionWords = Annotated[tuple[Annotated[str, Meta(max_length=1000)], ...], Meta(max_length=100)]


class MachineSetting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A virtual machine of MP-SPDZ with all that changes what it does: for a program of a user's own.

    Attributes:
        machine: A name of `MACHINES`.
        parties: The number of parties.
        batch_size: How much material is prepared at once (`-b`); None for the machine's choice.
        bucket_size: The bucket size of the shuffle-and-sacrifice approach (`-B`), from 3 (large batches) to 5
            (small ones); None for the machine's choice.
        security_bits: The statistical security (`-S`, or `-SP` of spdz2k); None for the machine's choice.
        compile_options: Further options of MP-SPDZ's compiler, or another length of integers.
        run_options: Further options of the machine.
    """

    machine: str
    parties: PartiesOfMachine
    batch_size: BatchSize | None = None
    bucket_size: BucketSize | None = None
    security_bits: MachineSecurityBits | None = None
    compile_options: OptionWords = ()
    run_options: OptionWords = ()

    @property
    def kind(self) -> MachineKind:
        """The machine as MP-SPDZ documents it, or OptionError if there is none of this name."""
        return machine_kind(self.machine)

    @property
    def file(self) -> str:
        """The machine's file."""
        return self.machine + FILE_ENDING

    def refusal(self) -> str | None:
        """Return why these options cannot go together, in one sentence; None if they can.

        [test: tests/benchmarks/measure/test_machines.py]
        """
        kind = self.kind
        if kind.beside is not None:
            return f"{self.machine} does not run by itself: {kind.beside}. Choose another machine."
        if not kind.fewest <= self.parties <= kind.most:
            takes = f"from {kind.fewest} to {kind.most} parties"
            if kind.fewest == kind.most:
                takes = f"{kind.fewest} parties"
            return f"{self.machine} takes {takes} here, not {self.parties}."
        if self.security_bits is not None and kind.security is None:
            return f"{self.machine} has no statistical security parameter; leave out security_bits."
        return self._refused_compile_option() or self._refused_run_option()

    def _refused_compile_option(self) -> str | None:
        kind = self.kind
        for name in map(_name_of, self.compile_options):
            if kind.arithmetic not in _ARITHMETIC_OF.get(name, (kind.arithmetic,)):
                return (
                    f"{self.machine} computes {kind.arithmetic.value}, and the compile option {name} is for "
                    f"programs that compute {_ARITHMETIC_OF[name][0].value}; leave it out."
                )
            if name in _OF_EXECUTION:
                return f"Programs are compiled for the machine that runs them; leave out {name}."
        return None

    def _refused_run_option(self) -> str | None:
        for name in map(_name_of, self.run_options):
            if name in _BY_FACTOR:
                return f"The option {name} of a machine is set by {_BY_FACTOR[name]}; use that."
            if name in _BY_RUN:
                return (
                    f"The option {name} of a machine is set by the run, as are all of how parties meet, "
                    "read, write and print; leave it out."
                )
        return None

    @property
    def compiler_options(self) -> tuple[str, ...]:
        """All options of MP-SPDZ's compiler.

        `-E` has the compiler optimize for the machine, as `Scripts/compile-run.py` does. Of a machine whose
        parties can split shares among themselves, it would take their number from the environment.
        """
        options = [*self.compile_options]
        names = [_name_of(option) for option in options]
        if not any(name in _OF_LENGTH for name in names):
            options += [word for word in _LENGTHS[self.kind.arithmetic] if word not in names]
        if self.machine == "semi2k" and not {"-X", "-Y", "-Z"} & {*names}:
            options += ["-Z", str(self.parties)]
        return ("-E", self.machine, *options)

    def model(self) -> SecurityModel:
        """Return the model that an engine runs; no release runs on it, and `MODELS` has none of its name."""
        kind = self.kind
        options: list[str] = []
        if kind.fewest != kind.most:
            options += ["-N", str(self.parties)]
        if kind.encrypts:
            options.append(kind.encrypts)
        if self.bucket_size is not None:
            options += ["-B", str(self.bucket_size)]
        if self.security_bits is not None and kind.security is not None:
            options += [kind.security, str(self.security_bits)]
        corruptions = self.parties - 1
        if kind.majority:
            corruptions = (self.parties - 1) // 2
        return SecurityModel(
            name=self.file,
            engine="mp-spdz",
            parties=self.parties,
            corruptions=corruptions,
            adversary=kind.adversary,
            ring=RING if kind.arithmetic is Arithmetic.RING else FIELD,
            virtual_machine=self.file,
            compile_options=self.compiler_options,
            run_options=(*options, *self.run_options),
            fixed_batch=self.batch_size,
            is_bare=True,
        )


def machine_kind(name: str) -> MachineKind:
    """Return the machine of a name, or raise OptionError."""
    if name not in MACHINES:
        raise OptionError(
            f"There is no machine {name[:80]!r} of MP-SPDZ here{similar(name, MACHINES)}; choose one of "
            f"{', '.join(MACHINES)}."
        )
    return MACHINES[name]


def machine_name(given: str) -> str:
    """Return the name of a machine, given by its name or by its file's; raises as `machine_kind`."""
    name = given.removesuffix(FILE_ENDING)
    machine_kind(name)
    return name


def _name_of(option: str) -> str:
    """Return the name of an option, without a value that follows "="; "" for a word that is none."""
    return option.partition("=")[0] if option.startswith("-") else ""
