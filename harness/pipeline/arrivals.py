"""Weights while records arrive: a release in each epoch, and from all of them the counts so far.

All epochs have one charge, made before the first. A folder keeps what was fixed then, which uploads each
epoch was the first to count, and what was revealed: nothing that is secret. Uploads stay where they are.
"""

import json
import os
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.engines.base import Progress
from harness.errors import FairSharesError, OptionError, ResultFileError, ShareError, UsedUploadsError, named
from harness.inputs.record_schema import RecordDomain, domain_from_json
from harness.inputs.shares.file_format import ClientPolicy
from harness.pipeline.party_inputs import PartyInputs
from harness.pipeline.run import MANIFEST, Run, RunSettings, event_of, privacy_of, result_files, run_release
from harness.pipeline.sources import RunContext, SharesSource
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.privacy.ledger.charge import SPENT, Account, Entry, entry, nothing_started
from harness.privacy.ledger.populations import PrivacyEvent, uncovered
from harness.privacy.statement import PrivacyStatement
from harness.releases.base import PreparedRelease
from harness.releases.weights import Weights, WeightsSeries, WeightsStatistic
from harness.request.base import Request
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import held_alone, write_whole
from harness.system.result_files import SCHEMA, new_directory, write_all
from protocols.guarantee import Guarantee
from protocols.mechanisms.counts_so_far import Part, Schedule
from protocols.noise.added import Several
from protocols.spec import HONEST

STATE, EPOCH = "arrivals.json", "epoch"
MOST_BYTES = 1 << 28  # of the former: the identities of four million uploads, read in 4 s and 1.6 GB


@dataclass(frozen=True)
class Epoch:
    """One epoch that began.

    Attributes: id: random, by which a ledger knows it; uploads: that it was the first to count; counts: what
    it revealed.
    """

    id: str
    uploads: list[str]
    counts: list[float] | None = None


@dataclass(frozen=True)
class Arrivals:
    """What the folder keeps, as JSON has it.

    Attributes: options: fixed by the first epoch, for whoever runs the others; parts: of the schedule, each
    with its first epoch and its share; domain: of all uploads; epochs: those that began.
    """

    options: dict[str, str]
    parts: list[tuple[int, str]]
    domain: dict[str, Any] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)

    @cached_property
    def schedule(self) -> Schedule:
        """What each epoch releases. Raises: ValueError: there is no such schedule."""
        return Schedule(tuple(Part(first, Fraction(share)) for first, share in self.parts))

    @cached_property
    def uploads(self) -> frozenset[str]:
        """All that were counted, or were to be."""
        return frozenset(upload for epoch in self.epochs for upload in epoch.uploads)

    def save(self, folder: Path) -> None:
        """Write it, all or nothing. Raises: OSError; OptionError: a later epoch could not read it."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, separators=(",", ":")).encode()
        if len(text) > MOST_BYTES:
            raise OptionError(
                f"{folder} would keep the identities of {len(self.uploads)} uploads, more than its "
                f"{MOST_BYTES >> 20} MiB hold; begin another series for these, with an ε of its own."
            )
        write_whole(folder / STATE, text)


def read_arrivals(folder: Path) -> Arrivals | None:
    """Return what a folder keeps, None before its first epoch. Raises: ResultFileError: it is damaged."""
    path = folder / STATE
    if not path.exists():
        return None
    refusal = Refusal(ResultFileError, str(path), "as an epoch left it", "restore it, as the last epoch did")
    arrivals = as_type(Arrivals, read_json(path, refusal, SCHEMA, MOST_BYTES), refusal)
    if not arrivals.epochs:
        return None
    try:
        horizon, cells = len(arrivals.schedule.parts), domain_from_json(arrivals.domain, str(path)).cells
    except (ValueError, ArithmeticError, FairSharesError):
        refusal.say("its parts or its domain make no sense")
    if (
        len(arrivals.epochs) > horizon
        or sum(len(epoch.uploads) for epoch in arrivals.epochs) != len(arrivals.uploads)
        or any(len(epoch.counts) != cells for epoch in arrivals.epochs if epoch.counts is not None)
    ):
        refusal.say("its epochs are too many, have an upload twice, or revealed other counts")
    return arrivals


@contextmanager
def alone(folder: Path) -> Iterator[Path]:
    """Keep other epochs off a folder meanwhile, which is made if it is not there; yield where it really is.

    Raises: OptionError: another one is going on, or it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = held_alone(folder)
    except OSError as error:
        raise OptionError(f"Cannot use {named('arrivals', folder)}: {error.strerror}.") from None
    if lock is None:
        raise OptionError(f"Another epoch of {folder} is going on; run this one when that has ended.")
    try:
        yield folder.resolve()
    finally:
        with suppress(OSError):  # it holds what an epoch left
            folder.rmdir()
        os.close(lock)


class _Charging(Entry):
    """An epoch's place in the ledger: the first charges all, later ones add their uploads to that.

    The folder is told first: whatever happens then, the epoch has begun, and its release is not made again.
    """

    def __init__(self, account: Account, folder: Path, before: Arrivals) -> None:
        super().__init__(account)
        self.folder, self.before, self.now = folder, before, before
        if before.epochs:
            self.out = str(folder)  # it was charged before

    def of(self, release: PrivacyEvent) -> PrivacyEvent:
        assert self.whole is not None
        new = tuple(upload for upload in release.uploads if upload not in self.before.uploads)
        policies = {upload: release.policies[upload] for upload in new if upload in release.policies}
        return replace(self.whole, uploads=new, policies=policies)

    def start(self, release: PrivacyEvent) -> None:
        event = self.of(release)
        began = [*self.before.epochs, Epoch(event.epoch, sorted(event.uploads))]
        self.now = replace(self.now, epochs=began)
        self.now.save(self.folder)
        try:
            super().start(release)
            if self.before.epochs:
                with nothing_started():
                    self._charge, self.population = self.account.ledger.add(
                        self.account.population, event, {epoch.id: epoch.uploads for epoch in began}
                    )
        except FairSharesError:
            self.before.save(self.folder)
            raise
        SPENT.append(
            f"Epoch {len(began)} of {len(self.now.parts)} in {self.folder} had begun and is not repeated: "
            "what it was the first to count is missing until a later epoch counts it again."
        )


@dataclass(frozen=True)
class _Arriving(SharesSource):
    """The uploads of an epoch: new ones, and those of epochs before it that its part counts again."""

    series: WeightsSeries = field(kw_only=True)
    whole: Request = field(kw_only=True)
    part: Part = field(kw_only=True)
    charging: _Charging = field(kw_only=True)

    def describe(self, run: RunContext) -> PartyInputs:
        if any(self.directory.glob("party-*.aggregate")):
            raise ShareError(
                f"{self.directory} has aggregates, and {named('arrivals')} needs the uploads, of which later "
                "epochs count some again; name the directory that has these, with the task and all keys."
            )
        inputs, charging = super().describe(replace(run, uncovered=self._uncovered)), self.charging
        if charging.before.epochs and inputs.domain.to_json() != charging.before.domain:
            raise ShareError(
                f"The uploads in {self.directory} are of another domain than those of earlier epochs; begin "
                "another series for these."
            )
        charging.whole = replace(self._event(inputs.domain), epoch=secrets.token_hex(16))
        charging.now = replace(charging.before, domain=inputs.domain.to_json())
        return inputs

    def _event(self, domain: RecordDomain) -> PrivacyEvent:
        """Return what a ledger is told of all epochs together. Raises: OptionError: they cannot be."""
        prepared = self.series.prepare(self.whole, domain)
        return replace(event_of(prepared, self.series.name, self.charging.folder), noise=None)

    def _uncovered(self, domain: RecordDomain, policies: Mapping[str, ClientPolicy]) -> Collection[str]:
        """Return the new uploads whose clients do not allow all epochs; the others were asked before."""
        before = self.charging.before.uploads
        new = {batch: policy for batch, policy in policies.items() if batch not in before}
        return uncovered(new, self._event(domain), self.charging.account.ledger.spent_on(new))

    def taken(self, uploads: frozenset[str]) -> frozenset[str]:
        before = self.charging.before
        again = {upload for epoch in before.epochs[self.part.first :] for upload in epoch.uploads}
        if uploads <= before.uploads:
            raise UsedUploadsError(
                f"All {len(uploads)} uploads in {self.directory} went into epochs of {self.charging.folder} "
                "before. To count the same records again would spend more ε, and tell less than the counts "
                "that there are; go on when others have arrived."
            )
        if missing := again - uploads:
            raise ShareError(
                f"{len(missing)} uploads that this epoch counts again are not in {self.directory}, or not as "
                f"they were; {min(missing)} is one. Bring them back."
            )
        return uploads - before.uploads | again


def run_epoch(
    series: WeightsSeries,
    shares: SharesSource,
    settings: RunSettings,
    folder: Path,
    before: Arrivals,
    out: Path,
    progress: Progress,
) -> Run[Weights]:
    """Count what arrived since the last epoch; write the counts so far, and the weights that follow.

    Guarantees: all epochs together spend what the first one charged, whatever becomes of any of them: a
    release that was begun is never made again.  [test: tests/harness/pipeline/test_arrivals.py]
    Args: series: by the schedule that `before` has; settings: of all epochs together; folder: nobody else
    changes it meanwhile; before: what it keeps.
    Raises: FairSharesError: `out` does not exist then; once the parties had started, the epoch is lost: no
    count has its uploads until a later epoch counts them again.
    """
    horizon, number, started = len(before.parts), len(before.epochs) + 1, time.monotonic()
    if number > horizon:
        raise OptionError(
            f"All {horizon} epochs of {folder} are over, and their ε is spent; for more, begin with another "
            "folder, which has an ε of its own."
        )
    charging, whole = _Charging(settings.account, folder, before), settings.release
    part = series.schedule.parts[len(before.epochs)]
    source = _Arriving(shares.directory, series=series, whole=whole, part=part, charging=charging)
    own = replace(settings, release=series.at(part.share, whole))
    with entry(settings.account, charging), new_directory(out) as partial:
        run = run_release(
            WeightsStatistic(series.reweighing, series.spec),
            source,
            own,
            partial / EPOCH,
            progress,
            within=charging,
        )
        domain, last = run.found.counts.domain, charging.now.epochs[-1]
        last = replace(last, counts=run.found.counts.table.ravel().tolist())
        now = replace(charging.now, epochs=[*before.epochs, last])
        now.save(folder)
        lost = [t for t, epoch in enumerate(now.epochs) if epoch.counts is None]
        added, missing = series.schedule.adds_up(number, lost)
        table = np.sum([np.array(now.epochs[t].counts) for t in added], axis=0).reshape(domain.shape)
        noises = series.noises(whole, domain)
        counts = NoisyCounts(domain, table, Several(tuple(noises[t] for t in added)))
        weights = Weights(counts, REWEIGHINGS[series.reweighing](counts))
        manifest = {
            **run.manifest,
            "privacy": _together(series, series.prepare(whole, domain)).to_json(),
            "arrivals": {
                "folder": str(folder),
                "epoch": number,
                "horizon": horizon,
                "counts_from": part.first + 1,
                "missing": [t + 1 for t in sorted(missing)],
            },
            "wall_s": time.monotonic() - started,
        }
        files = {**result_files(series.files(weights), manifest["privacy"]), MANIFEST: manifest}
        write_all(partial, files)
        return Run(weights, manifest, charging, out, files)


def _together(series: WeightsSeries, prepared: PreparedRelease[Weights]) -> PrivacyStatement:
    """Return what all epochs state together."""
    stated, horizon = privacy_of(prepared, 0), len(series.schedule.parts)

    def replaced(share: Fraction) -> Guarantee:
        return series.part(share, prepared.release, prepared.domain).plan.if_replaced

    return replace(
        stated,
        failure=horizon * stated.failure,
        revealed=tuple(
            f"{revealed}: in each of {horizon} epochs, of its records and those of some before it"
            for revealed in stated.revealed
        ),
        public=(*stated.public, "which uploads each epoch counts"),
        if_replaced=stated.if_replaced and series.schedule.total(replaced),
        cap_kept_by=stated.cap_kept_by and HONEST,  # a form keeps one upload to it, a client may have several
        releases=horizon,
    )
