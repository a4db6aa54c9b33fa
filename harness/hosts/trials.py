"""Benchmark runs, as hosts are asked for them: a release on made-up records, or samples of noise.

Nothing of anybody's is in such a run, so it is charged to no ledger, and nothing that it opens is signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.engines.base import Job
from harness.errors import HostUnfitError
from harness.inputs.synthetic import Federation
from harness.pipeline.noise_samples import noise_job
from harness.pipeline.party_inputs import synthetic_inputs
from harness.pipeline.run import RunSettings, make_job
from harness.pipeline.terms import Asked
from harness.releases.noise_samples import choose_sampler
from harness.releases.registry import positive
from harness.security_models import Model, get_model
from protocols.spec import CLIENTS


@dataclass(frozen=True)
class Noise:
    """Samples of noise. Attributes: sampler, epsilon, delta: see `choose_sampler`; samples: how many."""

    sampler: str
    epsilon: str
    delta: str
    samples: int


@dataclass(frozen=True)
class Trial:
    """One of the two. Attributes: asked, federation: which release, on which records; or noise."""

    model: str
    asked: Asked | None = None
    federation: Federation | None = None
    noise: Noise | None = None

    @property
    def of(self) -> Model:
        """The model whose parties run it."""
        return get_model(self.model)

    def job(self, certificates: Sequence[str] = ()) -> Job:
        """Return what every party runs. Args: certificates: of the starter's clients, if they send.

        Raises: OptionError, UnsupportedError: this version does not know it, or cannot run it.
        """
        if self.noise is not None:
            texts = positive(self.noise.epsilon), positive(self.noise.delta)
            sampler = choose_sampler(self.noise.sampler, *texts, rounded=False)
            return noise_job(sampler, self.noise.samples, self.of)
        asked, federation = self._release()
        statistic, release = asked.statistic_and_release()
        RunSettings(release).check_supported(statistic.spec)
        prepared = statistic.prepare(release, federation.domain)
        return make_job(prepared, synthetic_inputs(federation, release.form, self.of, certificates))

    def values(self, party: int) -> bytes | None:
        """Return what a party feeds in, None if that is nothing."""
        if self.asked is None:
            return None
        asked, federation = self._release()
        form = asked.statistic_and_release()[1].form
        return None if form.path is CLIENTS else federation.values_of(party, form, self.of.domain)

    def _release(self) -> tuple[Asked, Federation]:
        if self.asked is None or self.federation is None or self.asked.model != self.model:
            raise HostUnfitError("It was asked for a benchmark run of nothing that it knows.")
        return self.asked, self.federation
