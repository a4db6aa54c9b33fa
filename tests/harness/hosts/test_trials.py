"""Benchmark runs at hosts: what a host feeds in without sharing is what sharing would give it."""

from pathlib import Path

import pytest
from msgspec import structs

from benchmarks.literal import literal_job, literal_trial
from benchmarks.literal.protocols import SPECS
from benchmarks.measure.samples import Level
from fairshares.harness.engines.mpspdz.compiler import compile_options
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.errors import HostUnfitError, OptionError, UnsupportedError
from fairshares.harness.hosts import trials
from fairshares.harness.hosts.trials import CloneTrial, made_up_values
from fairshares.harness.inputs import shares
from fairshares.harness.inputs.encoding import shared_over
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.inputs.shares import copies_of, held_by
from fairshares.harness.pipeline.sources import share_and_add_up
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.security_models import MODELS
from fairshares.harness.system.documents import Refusal, as_json, as_type
from fairshares.protocols.spec import REPLICATED, SHARES, InputForm, InputPath
from tests.support.rings import total_of

REFUSAL = Refusal(HostUnfitError, "A trial", "one", "correct it")
OF_COUNTS = FederationSize(7, 23, 2, 3)
OF_SCORES = FederationSize(7, 23, 2, 2, RecordKind.SCORE, thresholds=5)
CASES = {
    "split": (OF_COUNTS, PI_RW.input_forms["split"]),
    "product": (OF_COUNTS, PI_RW.input_forms["product"]),
    "slots": (FederationSize(7, 7, 2, 3, cap=1), PI_RW_SLOTS.input_forms["slots"]),
    "bins": (OF_SCORES, PI_ROC.input_forms["split"]),
    "keys": (OF_SCORES, PI_ROC_RECORDS.input_forms["keys"]),
    "values": (FederationSize(7, 7, 2, 0, RecordKind.VALUE), PI_GAP.input_forms["split"]),
}


@pytest.mark.parametrize(
    ("model", "path"),
    [("ring", SHARES), ("mpyc", SHARES), ("ps-rep-ring", REPLICATED), ("rep4-ring", REPLICATED)],
)
@pytest.mark.parametrize("case", CASES)
def test_parties_values_add_up_to_what_clients_share(
    case: str, model: str, path: InputPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "MAX_VALUES", 64 * 40)  # so that some clients are shared at a time
    size, form = CASES[case][0], CASES[case][1].by(path)
    chosen = MODELS[model]
    shared, _ = share_and_add_up(size.even_records(), form, chosen, tmp_path, lambda _: None)
    there = [path.read_bytes() for path in shared]
    made = [made_up_values(size, form, chosen, party) for party in range(chosen.parties)]
    over = shared_over(form, chosen.ring)
    assert [len(payload) for payload in made] == [len(payload) for payload in there]
    assert total_of(each_share(made, form), over) == total_of(each_share(there, form), over)
    assert any(total_of(each_share(made, form), over))


def each_share(parties: list[bytes], form: InputForm) -> list[bytes]:
    """Return all shares, each once: whoever holds one has the same."""
    shares: dict[int, bytes] = {}
    for party, held in enumerate(parties):
        numbers = held_by(party, len(parties), copies_of(form, len(parties)))
        size = len(held) // len(numbers)
        for at, number in enumerate(numbers):
            part = held[at * size : (at + 1) * size]
            assert shares.setdefault(number, part) == part
    return [shares[number] for number in range(len(parties))]


NUMBERS: dict[str, int] = {"clients": 3, "records": 9, "thresholds": 2, "samples": 4}


def printed(protocol: str, **changes: Level) -> dict[str, Level]:
    """Return the cell of a protocol as printed, with all numbers."""
    return {"protocol": protocol, "variant": "literal-at-once", "epsilon": "1", **NUMBERS, **changes}


@pytest.mark.parametrize("protocol", SPECS)
def test_a_program_of_a_clone_is_the_same_at_a_host_as_on_one_machine(protocol: str) -> None:
    """Neither its text nor its file comes from the coordinator, but its arguments and numbers of bits do."""
    model = MODELS["rep4-ring"]
    here = literal_job(printed(protocol), model)
    trial = as_type(CloneTrial, as_json(literal_trial(printed(protocol), model)), REFUSAL)
    trial.values(3)
    there = trial.job()
    assert program_hash(there) == program_hash(here)
    assert there.source == here.source == trials.CLONE_PROGRAMS / f"{here.spec.name}.mpc"
    assert (there.fair_bits, there.batch(model)) == (here.fair_bits, here.batch(model))
    assert compile_options(there, model) == compile_options(here, model)
    there.check_parties(model)


@pytest.mark.parametrize("name", ["protocol", "clients", "epsilon"])
def test_a_protocol_as_printed_with_a_number_of_nothing_is_refused(name: str) -> None:
    changed = printed("pi_gap", variant="none") if name == "protocol" else printed("pi_rw", **{name: 0})
    with pytest.raises(OptionError):
        literal_trial(changed, MODELS["ring"])


def test_a_host_runs_no_program_of_a_clone_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = MODELS["ring"]
    trial = literal_trial(printed("pi_cf"), ring)
    with pytest.raises(UnsupportedError, match="only MP-SPDZ has"):
        structs.replace(trial, security="mpyc").values(0)
    with pytest.raises(HostUnfitError, match="run on nobody, or on more than 10,000,000"):
        literal_trial(printed("pi_cf", records=10**7 + 1), ring).values(0)
    with pytest.raises(UnsupportedError, match=r"no program pi_rw\.mpc in .*; take a clone"):
        structs.replace(trial, program="pi_rw").values(0)  # which is ours, and takes shares
    with pytest.raises(UnsupportedError, match="pi_cf_literal was laid out for 3 parties"):
        structs.replace(trial, security="semi2k").job().check_parties(MODELS["semi2k"])
    monkeypatch.setattr(trials, "CLONE_PROGRAMS", tmp_path)  # an installed package has no such programs
    with pytest.raises(UnsupportedError, match=r"no program pi_cf_literal\.mpc in .*; take a clone"):
        trial.values(0)
