"""Benchmark runs at hosts: what a host feeds in without sharing is what sharing would give it."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.literal import literal_job
from fairshares.harness.errors import OptionError, UnsupportedError
from fairshares.harness.hosts.trials import LiteralTrial, made_up_values
from fairshares.harness.inputs import shares
from fairshares.harness.inputs.encoding import shared_over
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.inputs.shares import copies_of, held_by
from fairshares.harness.pipeline import literal_protocols
from fairshares.harness.pipeline.literal_protocols import SPECS, LiteralProtocol
from fairshares.harness.pipeline.sources import share_and_add_up
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.security_models import MODELS
from fairshares.protocols.spec import REPLICATED, SHARES, InputForm, InputPath
from tests.support.rings import total_of

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


def printed(protocol: str, **changes: Any) -> LiteralProtocol:
    """Return a protocol as printed, with all numbers."""
    return LiteralProtocol(**{"protocol": protocol, "form": "at-once", **NUMBERS, **changes})


@pytest.mark.parametrize("protocol", SPECS)
def test_a_protocol_as_printed_is_the_same_job_at_a_host_as_on_one_machine(protocol: str) -> None:
    """Of the host's own clone: neither the program's text nor its file comes from the coordinator."""
    trial = LiteralTrial(security="rep4-ring", literal=printed(protocol))
    cell: dict[str, str | int | float] = {
        "protocol": protocol,
        "variant": "literal-at-once",
        "epsilon": "1",
        **NUMBERS,
    }
    assert trial.job() == literal_job(cell, MODELS["rep4-ring"])
    trial.values(3)
    assert trial.job().source.parent == literal_protocols.DIRECTORY


@pytest.mark.parametrize("name", ["protocol", "clients", "claimed_epsilon"])
def test_a_protocol_as_printed_with_a_number_of_nothing_is_refused(name: str) -> None:
    changed = printed("pi_gap") if name == "protocol" else printed("pi_rw", **{name: 0})
    with pytest.raises(OptionError):
        LiteralTrial(security="ring", literal=changed).values(0)


def test_who_cannot_run_a_protocol_as_printed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnsupportedError, match="only MP-SPDZ has"):
        LiteralTrial(security="mpyc", literal=printed("pi_cf")).values(0)
    monkeypatch.setattr(literal_protocols, "DIRECTORY", tmp_path)  # an installed package has no such programs
    with pytest.raises(UnsupportedError, match=r"no program pi_cf_literal\.mpc in .*; take a clone"):
        LiteralTrial(security="ring", literal=printed("pi_cf")).values(0)
