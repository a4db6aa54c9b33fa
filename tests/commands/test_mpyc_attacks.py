"""A hostile party of the embedded engine, in a process of its own: no other party runs what it sends."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import PROGRAMS, Conditions, MadeUpJob
from fairshares.harness.engines.parties import supervisor
from fairshares.harness.engines.parties.party_log import EndedBy, Reason
from fairshares.harness.errors import OutputError, PartyFailedError
from fairshares.harness.security_models import get_model
from fairshares.protocols.spec import PI_LAP
from tests.support.hostile_party import HOSTILE, KINDS, HostileEngine
from tests.support.sandboxes import leave_out_sandbox

MPYC = get_model("mpyc")
JOB = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ("3", "16", "1", "40"), fair_bits=((59, 16),))
TIMEOUT_S = 300.0
OTHERS = [party for party in range(MPYC.parties) if party != HOSTILE]

# What a hostile party does, and what an honest one says of it.
WITH_VALUES = [kind for kind in KINDS if kind != "transfer"]
UNASKED = r"Party 0 sent more than \d+ MB that the program had not asked for"
SAID = {
    **dict.fromkeys(KINDS, r"Party 0 sent a message of \d+ bytes where \d+ are expected"),
    **{
        f"ones {kind}": "Party 0 sent an integer that is no field element"
        for kind in KINDS
        if kind != "transfer"
    },
    "pickle": r"Party 0 connected as party \d+",
    "another": "Party 0 connected as party 1",
    "nobody": "Party 0 connected as party 9",
    "two": "Party 0 sent two messages for one step",
    "huge": UNASKED,
    "flood": UNASKED,
}


@pytest.fixture(autouse=True)
def without_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run parties without their sandbox, in which no pickle could make a directory, even if it ran."""
    leave_out_sandbox(tmp_path, monkeypatch)


class Ends:
    """How all parties of a run ended, though the first of them that fails is named."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reasons: Sequence[Sequence[Reason]] = ()
        self.codes: dict[int, int] = {}
        as_before = supervisor._failure

        def noting(parties: Any, codes: Any, errors: Any, *rest: Any) -> Any:
            self.codes, self.reasons = dict(codes), errors
            return as_before(parties, codes, errors, *rest)

        monkeypatch.setattr(supervisor, "_failure", noting)
        for name in ("_GRACE_S", "_SEARCH_S"):  # all end, however long a busy machine takes for that
            monkeypatch.setattr(supervisor, name, 60.0)


@pytest.mark.parametrize("attack", SAID)
def test_an_honest_party_runs_nothing_and_names_who_sent_it(
    attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, made = Ends(monkeypatch), tmp_path / "made"
    with pytest.raises(PartyFailedError, match=SAID[attack]):
        HostileEngine(attack, made).run(JOB, MPYC, Conditions(tmp_path / "run", TIMEOUT_S, lambda step: None))
    assert not made.exists()
    said = [reason for party in OTHERS for reason in ends.reasons[party]]
    assert any(reason.is_ours and re.match(SAID[attack], reason.text) for reason in said)
    for party in OTHERS:
        if party not in ends.codes:  # it waits for one that ended before they had a link, and is stopped
            continue
        assert ends.codes[party] == 1
        # One sentence, of the party that attacked or of one that ended because of it.
        (reason,) = ends.reasons[party]
        assert reason.is_ours
        assert re.match(SAID[attack], reason.text) or reason.ended_by is EndedBy.PEER


@pytest.mark.parametrize("kind", WITH_VALUES)
def test_a_pickle_of_the_expected_length_is_numbers(kind: str, tmp_path: Path) -> None:
    """Which make a wrong result, as a semi-honest model allows, or are refused where one is too large.

    What the bytes are as numbers depends on the length of the path that is in them.
    """
    made, said = tmp_path / "made", ""
    try:
        HostileEngine(f"padded {kind}", made).run(
            JOB, MPYC, Conditions(tmp_path / "run", TIMEOUT_S, lambda step: None)
        )
    except (OutputError, PartyFailedError) as error:
        said = str(error) if isinstance(error, PartyFailedError) else ""
    assert said == "" or "Party 0 sent an integer that is no field element" in said
    assert not made.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_by_itself_mpyc_runs_what_a_party_sends(kind: str, tmp_path: Path) -> None:
    """So the attacks above are real: they fail for what is put in place of MPyC's own functions."""
    made = tmp_path / "made"
    with pytest.raises(PartyFailedError):
        HostileEngine(kind, made, unpickling=True).run(
            JOB, MPYC, Conditions(tmp_path / "run", 60.0, lambda step: None)
        )
    assert made.is_dir()


def test_a_party_that_leaves_is_said_to_have_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(monkeypatch)
    with pytest.raises(PartyFailedError, match="Connection closed by party 0"):
        HostileEngine("leave", tmp_path).run(
            JOB, MPYC, Conditions(tmp_path / "run", TIMEOUT_S, lambda step: None)
        )
    assert [ends.codes[party] for party in OTHERS] == [1, 1]
