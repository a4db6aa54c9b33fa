"""Benchmark runs that a coordinator asks hosts for, without charge or signature.

A host answers where its owner's policy allows it, whether or not it has this project's benchmarks. Each host
makes its inputs itself, so that no record can be in such a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairshares.harness.engines.base import Job
from fairshares.harness.errors import HostUnfitError, OptionError
from fairshares.harness.inputs.encoding import columns_of, shared_over
from fairshares.harness.inputs.federation_size import MOST, FederationSize
from fairshares.harness.inputs.shares import copies_of, held_by
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.noise_samples import noise_job
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.pipeline.sources import inputs_of_size, request_of_run
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.noise_samples import joint_sampler
from fairshares.harness.request.base import Request
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.protocols.accounting.rounding import exact_number
from fairshares.protocols.spec import CLIENTS, InputForm


@dataclass(frozen=True)
class Noise:
    """Samples of noise, with exact ε and δ as `p/q`."""

    exact: tuple[str, str]
    samples: int


def positive(text: str) -> Fraction:
    """Return a positive number `p` or `p/q`; OptionError without one."""
    value = exact_number(text)
    if value is None or value <= 0:
        raise OptionError("It was asked for noise of no epsilon or delta.")
    return value


@dataclass(frozen=True)
class Trial:
    """A release on made-up records, or samples of noise."""

    security: str
    asked: dict[str, str] | None = None
    federation: FederationSize | None = None
    noise: Noise | None = None

    @property
    def of(self) -> SecurityModel:
        """The model whose parties run it."""
        return get_model(self.security)

    def job(self, certificates: Sequence[str] = ()) -> Job:
        """Return every party's job. Raises OptionError, UnsupportedError or HostUnfitError."""
        if self.noise is not None:
            if not 0 < self.noise.samples <= MOST:
                raise HostUnfitError(f"It was asked for no samples of noise, or for more than {MOST:,}.")
            return noise_job(joint_sampler(*map(positive, self.noise.exact)), self.noise.samples, self.of)
        release, federation = self._release()
        statistic = statistic_of(release)
        RunSettings(release).check_supported(statistic.spec)
        prepared = statistic.prepare(release, federation.domain)
        return make_job(prepared, inputs_of_size(federation, release.form, self.of, certificates))

    def values(self, party: int) -> bytes | None:
        """Return a party's input, None if there is none."""
        if self.asked is None:
            return None
        release, federation = self._release()
        if release.form.path is CLIENTS:
            return None
        return made_up_values(federation, release.form, self.of, party)

    def _release(self) -> tuple[Request, FederationSize]:
        if self.asked is None or self.federation is None or self.asked.get("security") != self.security:
            raise HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        if not self.federation.is_possible:
            raise HostUnfitError(f"It was asked for a benchmark run on nobody, or on more than {MOST:,}.")
        return request_of_run(self.asked), self.federation


def made_up_values(size: FederationSize, form: InputForm, model: SecurityModel, party: int) -> bytes:
    """Return a party's input to a benchmark run, as long as its shares of as many records.

    Share 0 has all values, and the others are 0.
    [test: tests/harness/hosts/test_trials.py]
    """
    ring = shared_over(form, model.domain)
    values = ring.encode(columns_of(size.even_records(), form))
    if form.summed_by_party:
        values = ring.total(values)
    held: list[bytes] = []
    for number in held_by(party, model.parties, copies_of(form, model.parties)):
        held.append(ring.to_bytes(values) if number == 0 else bytes(values.nbytes))
    return b"".join(held)
