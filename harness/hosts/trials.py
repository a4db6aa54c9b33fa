"""Benchmark runs on hosts, without charge or signature."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fairshares.harness.engines.base import Job
from fairshares.harness.errors import HostUnfitError, OptionError
from fairshares.harness.inputs.synthetic import MOST, Federation
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.noise_samples import noise_job
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.pipeline.sources import request_of_run, synthetic_inputs
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.noise_samples import joint_sampler
from fairshares.harness.request.base import Request
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.protocols.accounting.rounding import exact_number
from fairshares.protocols.spec import CLIENTS


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
    federation: Federation | None = None
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
        return make_job(prepared, synthetic_inputs(federation, release.form, self.of, certificates))

    def values(self, party: int) -> bytes | None:
        """Return a party's input, None if there is none."""
        if self.asked is None:
            return None
        release, federation = self._release()
        if release.form.path is CLIENTS:
            return None
        return federation.values_of(party, self.of.parties, release.form, self.of.domain)

    def _release(self) -> tuple[Request, Federation]:
        if self.asked is None or self.federation is None or self.asked.get("security") != self.security:
            raise HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        if not self.federation.is_possible:
            raise HostUnfitError(f"It was asked for a benchmark run on nobody, or on more than {MOST:,}.")
        return request_of_run(self.asked), self.federation
