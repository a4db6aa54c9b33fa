"""Benchmark runs, as hosts are asked for them: made-up records, samples of noise, programs of owners.

Nothing of anybody's is in such a run, so it is charged to no ledger, and nothing that it opens is signed.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from harness.engines.base import Job
from harness.errors import HostUnfitError, OptionError
from harness.inputs.synthetic import MOST, Federation, public_integers
from harness.pipeline.noise_samples import noise_job
from harness.pipeline.run import RunSettings, make_job
from harness.pipeline.sources import request_of_run, synthetic_inputs
from harness.releases.noise_samples import choose_sampler
from harness.releases.registry import statistic_of
from harness.request.base import Request
from harness.security_models import Model, get_model
from harness.system.files import changed_by_others
from protocols.accounting.rounding import exact_number
from protocols.spec import CLIENTS, ProtocolSpec

PROGRAMS = "programs"  # in a host's directory, by its owner
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\.mpc")
_OPTION = re.compile(r"-[BCDFKMOPRXYZbclmnu]|[0-9]+")  # of the compiler: none that names a file or a host


@dataclass(frozen=True)
class Noise:
    """Samples of noise.

    Attributes: sampler: its name; exact: its ε and δ, as `p/q`; samples: how many.
    """

    sampler: str
    exact: tuple[str, str]
    samples: int


def positive(text: str) -> Fraction:
    """Return a positive number that is written as `p` or `p/q`. Raises: OptionError: it is none."""
    value = exact_number(text)
    if value is None or value <= 0:
        raise OptionError("It was asked for noise of no epsilon or delta.")
    return value


@dataclass(frozen=True)
class Program:
    """A program that a host's owner put into `programs`, in the host's directory: none travels.

    Attributes: inputs: how many public integers each party feeds in.
    """

    name: str
    sha256: str
    arguments: list[str]
    compile_options: list[str]
    inputs: int

    @classmethod
    def of(cls, job: Job) -> "Program":
        """Return what a job of this machine is elsewhere."""
        digest = hashlib.sha256(job.source.read_bytes()).hexdigest()
        options, (inputs, *_) = list(job.compile_options), job.given_bits or ((),)
        return cls(job.source.name, digest, list(job.arguments), options, len(inputs))

    def job(self, directory: Path, parties: int) -> Job:
        """Return the job on a host. Raises: HostUnfitError: its owner put no such program there."""
        source = directory / PROGRAMS / self.name
        known = _NAME.fullmatch(self.name) and all(map(_OPTION.fullmatch, self.compile_options))
        if not known or self.inputs > MOST:
            raise HostUnfitError("It was asked to compile what no command of FairShares asks for.")
        if not source.is_file() or hashlib.sha256(source.read_bytes()).hexdigest() != self.sha256:
            raise HostUnfitError(
                f"It has no program {source} like the starter's; ask its owner to read that and put it there."
            )
        if changed_by_others(source):
            raise HostUnfitError(f"Others can change {source}; make it its owner's alone, by chmod go-w.")
        spec = ProtocolSpec(source.stem, "a program of the user's", (), {}, (), ("whatever it opens",))
        return Job(
            spec,
            source,
            tuple(self.arguments),
            (None,) * parties,
            given_bits=public_integers(parties, self.inputs),
            compile_options=tuple(self.compile_options),
        )


@dataclass(frozen=True)
class Trial:
    """One of the three. Attributes: asked, federation: which release, on which records; noise; program."""

    model: str
    asked: dict[str, str] | None = None
    federation: Federation | None = None
    noise: Noise | None = None
    program: Program | None = None

    @property
    def of(self) -> Model:
        """The model whose parties run it."""
        return get_model(self.model)

    def job(self, directory: Path, certificates: Sequence[str] = ()) -> Job:
        """Return what every party runs.

        Args: directory: the host's own; certificates: of the starter's clients, if they send.
        Raises: OptionError, UnsupportedError: this version does not know it, or cannot run it;
        HostUnfitError.
        """
        if self.program is not None:
            return self.program.job(directory, self.of.parties)
        if self.noise is not None:
            if not 0 < self.noise.samples <= MOST:
                raise HostUnfitError(f"It was asked for no samples of noise, or for more than {MOST:,}.")
            sampler = choose_sampler(self.noise.sampler, *map(positive, self.noise.exact), rounded=False)
            return noise_job(sampler, self.noise.samples, self.of)
        release, federation = self._release()
        statistic = statistic_of(release)
        RunSettings(release).check_supported(statistic.spec)
        prepared = statistic.prepare(release, federation.domain)
        return make_job(prepared, synthetic_inputs(federation, release.form, self.of, certificates))

    def values(self, party: int) -> bytes | None:
        """Return what a party feeds in, None if that is nothing."""
        if self.asked is None:
            return None
        release, federation = self._release()
        form = release.form
        if form.path is CLIENTS:
            return None
        return federation.values_of(party, self.of.parties, form, self.of.domain)

    def _release(self) -> tuple[Request, Federation]:
        if self.asked is None or self.federation is None or self.asked.get("model") != self.model:
            raise HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        if not self.federation.is_possible:
            raise HostUnfitError(f"It was asked for a benchmark run on nobody, or on more than {MOST:,}.")
        return request_of_run(self.asked), self.federation
