"""Sums of vectors at hosts: one charge for all declared reveals, and each reveal is begun once at most."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    PolicyError,
    PopulationError,
    RecordDomainError,
    ShareError,
    SignatureError,
    UsedRevealError,
)
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.messages import PartyEnd
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.signed_results import Statement, read_signed, sign, verify
from fairshares.harness.security_models import get_model
from fairshares.harness.system.documents import Refusal
from tests.support.coordinators import Loopback, write_rules
from tests.support.vectors import GRID, RULES, Reveals

REFUSED = Refusal(SignatureError, "it", "signed", "do not use it")
CLIENTS = 40
VECTOR = (0.6, -0.8, 0.0)
FAR = 14  # noise beyond that, of a standard deviation of 1.7 at most, has a probability below 1e-12


@pytest.fixture
def reveals(tmp_path: Path) -> Reveals:
    return Reveals(tmp_path)


@pytest.mark.parametrize(
    ("security", "noise"),
    [
        ("mpyc", "distributed"),
        ("mpyc", "joint"),
        pytest.param("ring", "distributed", marks=pytest.mark.mpspdz("ring")),
        pytest.param("semi2k", "distributed", marks=pytest.mark.mpspdz("semi2k")),
        pytest.param("ps-rep-ring", "distributed", marks=pytest.mark.mpspdz("ps-rep-ring")),
        pytest.param("ring", "joint", marks=pytest.mark.mpspdz("ring")),
    ],
)
def test_hosts_reveal_the_noisy_sum_of_sealed_vectors(security: str, noise: str, tmp_path: Path) -> None:
    """A sum of 40 vectors of norm 1, of which one moves it by about as much as noise does."""
    made = Reveals(tmp_path, get_model(security))
    made.send(1, [VECTOR] * CLIENTS)
    run = made.reveal(1, noise=noise)
    plan = run.found.declared
    assert plan.reveal == 1
    assert np.abs(run.found.noisy_sum - CLIENTS * np.array(VECTOR)).max() < FAR
    assert run.found.vectors == run.manifest.inputs.clients == CLIENTS
    assert (run.found.noisy_sum * GRID.units == np.rint(run.found.noisy_sum * GRID.units)).all()
    signed = verify(run.out)
    assert len(signed) == made.model.parties
    assert signed[0][0].ran.domain["vectors"]["reveal"] == 1  # type: ignore[index, call-overload]


def test_all_declared_reveals_are_charged_once(reveals: Reveals) -> None:
    spent = None
    for number in (1, 2, 3):
        reveals.send(number, [VECTOR])
        run = reveals.reveal(number)
        spent = run.manifest.privacy.exact
        assert run.manifest.ledger is not None and run.manifest.ledger.spent.guarantee == spent
        for charges in reveals.charges():
            assert [charge.exact for charge in charges] == [spent]
            assert charges[0].chain is not None and charges[0].chain.name == reveals.task.name
    assert spent is not None and 7 < spent.epsilon <= 8
    for charges in reveals.charges()[:-1]:
        assert len(charges[0].runs) == 3


def test_an_update_for_another_reveal_counts_nowhere(reveals: Reveals) -> None:
    reveals.send(2, [VECTOR] * 3)
    reveals.send(1, [VECTOR])
    run = reveals.reveal(1)
    assert run.found.vectors == 1
    assert run.manifest.inputs.excluded_because == {"of another task": 3}
    assert reveals.reveal(2).found.vectors == 3


def fails_at_go(_request: str, _work: Work, answer: Any) -> Any:
    if _request == "go":
        raise HostUnfitError("It went away.")
    return answer


def test_a_reveal_counts_as_used_from_its_go_whatever_came_of_it(reveals: Reveals) -> None:
    """Also where it is asked for again; the clients seal their vectors for the next number."""
    reveals.send(1, [VECTOR])
    with pytest.raises(FairSharesError):
        reveals.reveal(1, {2: fails_at_go})
    before = reveals.charges()
    assert [len(charges) for charges in before] == [1, 1, 1, 1]  # the third host has charged it, too
    for _ in range(2):
        with pytest.raises(UsedRevealError, match=r"Have clients seal for reveal 2, which adds noise"):
            reveals.reveal(1)
    assert reveals.charges() == before
    reveals.send(2, [VECTOR])
    run = reveals.reveal(2)
    assert [[charge.exact for charge in charges] for charges in reveals.charges()] == [
        [run.manifest.privacy.exact]
    ] * 4


def fails_to_agree(request: str, _work: Work, answer: Any) -> Any:
    if request == "agree":
        raise HostUnfitError("It went away.")
    return answer


def test_a_reveal_that_no_party_began_is_begun_again(reveals: Reveals) -> None:
    """On the same vectors, as there is no sum of them yet."""
    reveals.send(1, [VECTOR])
    with pytest.raises(FairSharesError):
        reveals.reveal(1, {2: fails_to_agree})
    assert reveals.charges() == [(), (), (), ()]
    assert reveals.reveal(1).found.vectors == 1


def test_a_host_that_did_not_hear_of_a_reveal_is_asked_for_no_earlier_one(reveals: Reveals) -> None:
    """The numbers go up at every host, so each has begun no more than were declared."""
    reveals.send(3, [VECTOR])
    reveals.reveal(3)
    reveals.send(2, [VECTOR])
    with pytest.raises(UsedRevealError, match="Reveal 3 of task"):
        reveals.reveal(2)
    with pytest.raises(RecordDomainError, match="declares 3 reveals, and 4 is none of them"):
        reveals.send(4, [VECTOR])
    with pytest.raises(RecordDomainError, match="declares 3 reveals, and 4 is none of them"):
        reveals.reveal(4)


def test_later_reveals_have_the_noise_and_loss_of_the_first(reveals: Reveals) -> None:
    reveals.send(1, [VECTOR])
    reveals.reveal(1)
    reveals.send(2, [VECTOR])
    before = reveals.charges()
    with pytest.raises(PopulationError, match="were begun with another ε, δ or noise than this one has"):
        reveals.reveal(2, epsilon="7")
    assert reveals.charges() == before


def test_a_restored_ledger_repeats_no_reveal(reveals: Reveals, tmp_path: Path) -> None:
    ledger = reveals.hosts[0] / LEDGER
    reveals.send(1, [VECTOR])
    reveals.reveal(1)
    shutil.copy(ledger, tmp_path / "backup")
    reveals.send(2, [VECTOR])
    reveals.reveal(2)
    shutil.copy(tmp_path / "backup", ledger)
    with pytest.raises(UsedRevealError):
        reveals.reveal(2)  # by the other hosts' ledgers
    reveals.send(3, [VECTOR])
    with pytest.raises(HostUnfitError, match=r"of party 0 does not go on .* it was restored"):
        reveals.reveal(3)


def test_a_policy_allows_sums_and_names_the_task_that_is_declared(reveals: Reveals) -> None:
    """Not the task of a single reveal, which no owner has seen; and no chain has to be allowed."""
    reveals.send(1, [VECTOR])
    for rule in ('tasks = ["weights"]', f'upload_tasks = ["{"0" * 64}"]', "epsilon_per_run = 7"):
        write_rules(reveals.hosts[1], RULES + rule + "\n")
        with pytest.raises(PolicyError, match=re.escape(rule.partition(" ")[0])):
            reveals.reveal(1)
    assert reveals.charges() == [(), (), (), ()]
    write_rules(reveals.hosts[1], RULES + f'tasks = ["sums"]\nupload_tasks = ["{reveals.task.name}"]\n')
    reveals.reveal(1)


def test_another_tasks_reveal_is_refused(reveals: Reveals) -> None:
    reveals.send(1, [VECTOR])
    with pytest.raises(ShareError, match="was asked for a reveal of task 0000"):
        reveals.reveal(1, upload_task="0" * 64)
    assert reveals.charges() == [(), (), (), ()]


class Liar:
    """Says of its party's end what a host of its party does not: it signs something else, by its own key.

    Attributes: signed: what the host signed itself, in order; change: of the statement that it would sign.
    """

    def __init__(self, own: Path) -> None:
        self.own, self.signed = own, list[Statement]()
        self.change: Callable[[Statement], Statement] = lambda statement: statement

    def says(self, end: PartyEnd | None) -> PartyEnd | None:
        if end is None or end.signed is None:
            return end
        statement = read_signed(Statement, end.signed, REFUSED)
        if statement not in self.signed:
            self.signed.append(statement)
        return structs.replace(end, signed=sign(self.change(statement), self.own))


def test_a_host_that_signs_another_sum_is_named_and_nothing_is_written(
    reveals: Reveals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it makes up, and where it is the sum of an earlier reveal. The reveal is used."""
    liar = Liar(reveals.hosts[1] / "keys" / "embedded" / "P1.pem")
    honest = Loopback.party_end
    monkeypatch.setattr(
        Loopback, "party_end", lambda one: liar.says(honest(one)) if one.host.party == 1 else honest(one)
    )
    lies: list[tuple[Callable[[Statement], Statement], str]] = [
        (
            lambda statement: replace(statement, outputs={"sums": [0, 0, 0]}),
            "signed other values than its party printed",
        ),
        (lambda _: liar.signed[0], "signed another run than the one that it had agreed to"),
    ]
    for number, (change, says) in enumerate(lies, 1):
        liar.change = change
        reveals.send(number, [VECTOR])
        with pytest.raises(
            HostUnfitError, match="What the hosts signed is not the end of this run"
        ) as refused:
            reveals.reveal(number, out=tmp_path / "refused")
        assert says in str(refused.value) and not (tmp_path / "refused").exists()
        with pytest.raises(UsedRevealError):
            reveals.reveal(number)
    liar.change = lambda statement: statement
    reveals.send(3, [VECTOR])
    assert reveals.reveal(3).found.vectors == 1
