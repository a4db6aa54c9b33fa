"""Benchmark runs, as hosts are asked for them: made-up records, samples of noise.

Nothing of anybody's is in such a run, so it is charged to no ledger, and nothing that it opens is signed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from harness.engines.base import Job
from harness.errors import HostUnfitError, OptionError
from harness.inputs.synthetic import MOST, Federation
from harness.pipeline.noise_samples import noise_job
from harness.pipeline.run import RunSettings, make_job
from harness.pipeline.sources import request_of_run, synthetic_inputs
from harness.releases.noise_samples import joint_sampler
from harness.releases.registry import statistic_of
from harness.request.base import Request
from harness.security_models import SecurityModel, get_model
from protocols.accounting.rounding import exact_number
from protocols.spec import CLIENTS


@dataclass(frozen=True)
class Noise:
    """Samples of noise.

    Attributes: exact: their ε and δ, as `p/q`; samples: how many.
    """

    exact: tuple[str, str]
    samples: int


def positive(text: str) -> Fraction:
    """Return a positive number that is written as `p` or `p/q`. Raises: OptionError: it is none."""
    value = exact_number(text)
    if value is None or value <= 0:
        raise OptionError("It was asked for noise of no epsilon or delta.")
    return value


@dataclass(frozen=True)
class Trial:
    """One of the two. Attributes: asked, federation: a release, on which records; noise: which samples."""

    security: str
    asked: dict[str, str] | None = None
    federation: Federation | None = None
    noise: Noise | None = None

    @property
    def of(self) -> SecurityModel:
        """The model whose parties run it."""
        return get_model(self.security)

    def job(self, certificates: Sequence[str] = ()) -> Job:
        """Return what every party runs.

        Args: certificates: of the coordinator's clients, if they send.
        Raises: OptionError, UnsupportedError: this version does not know it, or cannot run it;
        HostUnfitError.
        """
        if self.noise is not None:
            if not 0 < self.noise.samples <= MOST:
                raise HostUnfitError(f"It was asked for no samples of noise, or for more than {MOST:,}.")
            sampler = joint_sampler(*map(positive, self.noise.exact))
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
        if self.asked is None or self.federation is None or self.asked.get("security") != self.security:
            raise HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        if not self.federation.is_possible:
            raise HostUnfitError(f"It was asked for a benchmark run on nobody, or on more than {MOST:,}.")
        return request_of_run(self.asked), self.federation
