"""Runs on hosts beside releases: noise made ahead, each piece used once; benchmark runs, of nobody's data."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec import structs

from fairshares.harness.engines.parties import handle
from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    PolicyError,
    ShareError,
    StockError,
    UsedNoiseError,
)
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.listed_uploads import _noise_ahead
from fairshares.harness.hosts.messages import (
    Check,
    Keep,
    Preprocess,
    Propose,
    RunFacts,
    RunTrial,
    Sending,
    TimeLinks,
)
from fairshares.harness.hosts.party_run import PlannedRun, Ready, RunOfClients
from fairshares.harness.hosts.policy import LEDGER, STOCK
from fairshares.harness.hosts.runner import HostsBackend
from fairshares.harness.hosts.signed_results import Intent, Statement, sign
from fairshares.harness.hosts.states import NoRun, RunKind
from fairshares.harness.hosts.trials import TERMS, NoiseTrial, ReleaseTrial, Trial
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.pipeline.sources import read_terms
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.stock import PieceRecord, Stock
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import get_model
from fairshares.harness.system.files import PREFIX
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import CLIENTS
from tests.support.command import refused, succeed
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    MODEL,
    RULE,
    Coordinator,
    Party,
    answered,
    asked,
    let_go,
    make_hosts,
    nonces_of,
    run_certificate,
    run_of,
    spent,
    stand_in,
    to_agree,
    to_go,
    to_prepare,
    to_prepare_invited,
    write_rules,
)
from tests.support.marked import keep_marked, kill_at_random_steps, open_mark
from tests.support.running import QUICKEST
from tests.support.ssh import Site, set_up, site

ASKED = WeightsRequest(epsilon=1, security=MODEL, population="loans", offline=True).to_json()


HEAD = "a" * 64  # of a ledger


def preparing(host: Path, stack: ExitStack) -> Work:
    """Return the work of party 0's host, with a party that is ready to make noise."""
    work = Coordinator(host, stack).work
    work.preprocess(Preprocess(asked=ASKED, domain=DOMAIN.to_json()))
    answered(work, to_prepare(0))
    return work


def signed_by_all(said: Any, hosts: list[Path], **others: Any) -> dict[str, Signed]:
    """Return what all hosts sign of an intent or a statement. Args: others: fields that are another's own."""
    signed = {}
    for i, host in enumerate(hosts):
        intent = said if isinstance(said, Intent) else said.ran
        intent = replace(intent, party=i, run_certificate=run_certificate(i), **(others if i else {}))
        own = intent if isinstance(said, Intent) else replace(said, ran=intent)
        signed[str(i)] = sign(own, host / "keys" / "embedded" / f"P{i}.pem")
    return signed


def agreed(work: Work, hosts: list[Path], attempts: int = 1, **others: Any) -> dict[str, Signed]:
    """Have a host agree to its run; return what all hosts sign of that."""
    if not isinstance(work.state, Ready):
        stand_in(work)
    answered(work, to_agree(nonces_of(work), attempts))
    return signed_by_all(run_of(work).intent, hosts, **others)


def begun(work: Work, hosts: list[Path], **others: Any) -> None:
    """Let a party of which nothing runs begin."""
    stand_in(work, Party())
    signed = agreed(work, hosts, **others)
    answered(work, to_go(signed))


def test_attempts_are_counted_before_a_party_begins_and_limited(hosts: list[Path], stack: ExitStack) -> None:
    """A cheater may fool a check in each; no coordinator hides how many there were."""
    write_rules(hosts[0], f"attempts = 2\n{RULE}")
    for number in (1, 2):
        with ExitStack() as connection:
            begun(preparing(hosts[0], connection), hosts, attempts=number)
    with pytest.raises(HostUnfitError, match="fewer attempts"):
        agreed(preparing(hosts[0], stack), hosts, attempts=2)
    stack.close()
    with pytest.raises(PolicyError, match="attempts = 2, and this would be attempt 3"):
        agreed(preparing(hosts[0], stack), hosts, attempts=3)
    (terms,) = (hosts[0] / STOCK).iterdir()
    assert Stock(hosts[0] / STOCK).pieces(terms.name) == []


def test_a_policy_that_forbids_the_release_forbids_its_noise(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[0], stack).work
    with pytest.raises(PolicyError, match="names no population 'others'"):
        work.preprocess(Preprocess(asked={**ASKED, "population": "others"}, domain=DOMAIN.to_json()))


@pytest.mark.parametrize("missing", ["signature", "end"])
def test_no_piece_is_kept_unless_all_parties_ended_well(
    missing: str, hosts: list[Path], stack: ExitStack
) -> None:
    """A check can fail at one party alone."""
    work = preparing(hosts[0], stack)
    begun(work, hosts)
    intent = run_of(work).begun.own
    made = signed_by_all(Statement(intent, {}, ("0", "0"), {}, {}, ""), hosts)
    if missing == "signature":
        work.state = run_of(work).over(0).state
        made["2"] = signed_by_all(Statement(intent, {}, ("0", "0"), {}, {}, ""), hosts, piece="another")["2"]
    with pytest.raises(HostUnfitError, match=r"ended something else|does not answer 'keep' now"):
        answered(work, Keep(made=made))
    (terms,) = (hosts[0] / STOCK).iterdir()
    assert Stock(hosts[0] / STOCK).pieces(terms.name) == []


@pytest.mark.parametrize("offline", [True, False])
def test_a_ledger_that_went_back_in_time_is_found_out(
    offline: bool, hosts: list[Path], stack: ExitStack
) -> None:
    """By two peers that remember what the host charged: its owner is told how it goes on."""
    work = preparing(hosts[0], stack) if offline else Coordinator(hosts[0], stack).prepared(asked())
    said = f"ledger of party 0 does not go on from what party 1 and party 2 have seen .* --seen {HEAD}"
    with pytest.raises(HostUnfitError, match=said):
        begun(work, hosts, seen={"0": HEAD})
    assert spent(hosts[0]) == []


def test_a_host_that_lies_about_a_ledger_costs_one_piece(hosts: list[Path], stack: ExitStack) -> None:
    """Its word against the ledger's: the run is refused, and nobody is told to restore anything."""
    stock, coordinator = Stock(hosts[0] / STOCK), proposed(hosts[0], stack)[0]
    terms = run_of(coordinator.work).inputs.noise_terms
    for mark in range(3):
        keep_marked(stock, terms, 1, mark)
    first, *rest = stock.pieces(terms)
    work = coordinator.work
    answered(work, to_prepare(0, piece=first))
    signed = agreed(work, hosts)
    liar = hosts[1] / "keys" / "embedded" / "P1.pem"
    intent = replace(run_of(work).intent, party=1, run_certificate=run_certificate(1), seen={"0": HEAD})
    with pytest.raises(HostUnfitError) as refused_run:
        answered(work, to_go(signed | {"1": sign(intent, liar)}))
    said = str(refused_run.value)
    assert f"from what party 1 says to have seen of it ({HEAD})" in said and "hosts.restored" not in said
    assert "no other party bears that out" in said and f"piece {first[:12]}, was removed" in said
    assert stock.pieces(terms) == rest and spent(hosts[0]) == [] and not work.is_running


def no_room(*_arguments: object) -> None:
    """Stand for what writes to a disk that is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_refused_run_takes_no_noise(hosts: list[Path], stack: ExitStack) -> None:
    """Whatever is refused of its preparation, the piece stays in the stock, and the next request gets it."""
    stock, coordinator = Stock(hosts[0] / STOCK), proposed(hosts[0], stack)[0]
    work = coordinator.work
    terms = run_of(work).inputs.noise_terms
    attempts, made = stock.begin(terms), stock.directory / "made"
    shares = Path("Persistence", "Transactions-P0.data")
    (made / "party-0" / shares).parent.mkdir(parents=True)
    (made / "party-0" / shares).write_text("a party's")
    stock.keep(terms, "7" * 64, made, PieceRecord(attempts=attempts))
    (piece,) = stock.pieces(terms)
    right = to_prepare(0, piece=piece)
    elsewhere = [("127.0.0.1", 1)] * MODEL.parties
    for wrong, error, said in (
        (structs.replace(right, addresses=elsewhere), PolicyError, "has port = 0, and it was asked"),
        (structs.replace(right, addresses=elsewhere[1:]), HostUnfitError, "of other parties than its model"),
        (structs.replace(right, piece="b" * 64), StockError, "has no noise for this release"),
        (structs.replace(right, piece=None), StockError, "whoever starts it named no piece"),
    ):
        with pytest.raises(error, match=said):
            answered(work, wrong)
        assert stock.pieces(terms) == [piece]
    place = run_of(work).place.scratch
    before = sorted(place.rglob("*"))
    with patch.object(handle, "write_config", no_room), pytest.raises(OSError, match="No space left"):
        answered(work, right)
    assert stock.pieces(terms) == [piece] and sorted(place.rglob("*")) == before
    answered(work, right)
    assert stock.pieces(terms) == [] and not run_of(work).planned.file.exists()
    assert (place / "party" / shares).read_text() == "a party's"


def test_a_peer_that_went_back_in_time_is_refused(hosts: list[Path], stack: ExitStack) -> None:
    work = preparing(hosts[0], stack)
    planned = run_of(work).planned
    planned.inputs.guard.remember({1: HEAD}, planned.place.keys.all_histories(0))
    with pytest.raises(HostUnfitError, match=rf"of party 1 does not go on .* party 0 says .*\({HEAD}\)"):
        begun(work, hosts, head="b" * 64, had=["c" * 64], lacks=[HEAD], seen={})
    others = signed_by_all(run_of(work).intent, hosts, head="b" * 64, had=["c" * 64], lacks=[HEAD])
    with pytest.raises(HostUnfitError, match=f"what party 0 and party 2 have seen .* --seen {HEAD}"):
        answered(work, to_go(others))
    with pytest.raises(
        HostUnfitError, match="host of party 1 was not asked for a head that party 0"
    ) as refused_run:
        answered(work, to_go(signed_by_all(run_of(work).intent, hosts, head="b" * 64, had=["c" * 64])))
    assert "hosts.restored" not in str(refused_run.value)


MODEL_OF_HOSTS = get_model(QUICKEST)
REQUEST = ("weights", "--hosts", "hosts.toml", "--epsilon", "1", "--security", QUICKEST)
DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "5")
RUN = (*REQUEST, "--offline", "--population", "people")


@pytest.fixture
def at_hosts(tmp_path: Path) -> Iterator[Site]:
    """Yield hosts that are set up, each with its shares of the same records."""
    with site(tmp_path, MODEL_OF_HOSTS.parties) as made:
        set_up(made, MODEL_OF_HOSTS)
        yield made


def pieces(made: Site, party: int) -> set[str]:
    stock = Stock(made.directory(party) / STOCK)
    return {name for terms in stock.directory.iterdir() for name in stock.pieces(terms.name)}


def test_noise_is_made_kept_and_used_once_over_hosts(at_hosts: Site) -> None:
    """From making it to a verified release; then with a lost piece, and with a host from a backup."""
    home, last = at_hosts.home, MODEL_OF_HOSTS.parties - 1
    told = json.loads(succeed(*REQUEST, *DECLARED, "--preprocess", "4", "--json", cwd=home))
    assert [piece["attempts"] for piece in told["pieces"]] == [1, 1, 1, 1]
    assert {frozenset(pieces(at_hosts, i)) for i in range(last + 1)} == {
        frozenset(piece["piece"] for piece in told["pieces"])
    }
    backup = at_hosts.directory(0).with_name("backup")
    shutil.copytree(at_hosts.directory(0), backup)

    succeed(*RUN, "--out", "first", cwd=home)
    manifest = json.loads((home / "first" / "manifest.json").read_text())
    used = manifest["preprocessing"]["piece"]
    assert manifest["privacy"]["made_ahead"] and used not in pieces(at_hosts, 0) | pieces(at_hosts, last)
    assert "signed" in succeed("verify", "first", cwd=home)

    (lost,) = (at_hosts.directory(last) / STOCK).rglob(min(pieces(at_hosts, last)))
    shutil.rmtree(lost)
    succeed(*RUN, "--out", "second", cwd=home)
    second = json.loads((home / "second" / "manifest.json").read_text())["preprocessing"]["piece"]
    assert second not in (used, lost.name)

    shutil.rmtree(at_hosts.directory(0))
    backup.rename(at_hosts.directory(0))
    for online in (RUN, tuple(option for option in RUN if option != "--offline")):
        assert "restored from a backup" in refused(*online, "--out", "third", cwd=home)
        assert not (home / "third").exists()
    own = ("--directory", str(at_hosts.directory(0)), "--population", "people", "--epsilon", "1")
    succeed("hosts.restored", *own, "--seen", HEAD, cwd=home)
    assert not (at_hosts.directory(0) / STOCK).exists()


ALLOWED = "benchmark = true\n"
RUN_NAME = "0" * 32
OF_WEIGHTS = ReleaseTrial(
    security=MODEL.name, asked=asked(population=None), federation=FederationSize(7, 23, 2, 2)
)
OF_NOISE = NoiseTrial(security=MODEL.name, guarantee=Guarantee(Fraction(1), Fraction(1, 2**40)), samples=3)


@pytest.fixture
def taking_part(tmp_path: Path) -> list[Path]:
    """Return hosts that take part in benchmark runs, with shares of their own."""
    return make_hosts(tmp_path, ALLOWED + RULE)


@pytest.fixture
def work(taking_part: list[Path], stack: ExitStack) -> Work:
    return Coordinator(taking_part[1], stack).work


def planned(work: Work) -> PlannedRun[Any]:
    """Return what a host would run, before anything is compiled."""
    made: PlannedRun[Any] = run_of(work).inputs.planned(to_prepare(1), run_of(work).place)
    return made


def planned_for(work: Work, clients: Sending) -> RunOfClients[Any]:
    """Return what a host would run with clients that send, before anything is compiled."""
    made: RunOfClients[Any] = run_of(work).inputs.planned(clients, run_of(work).place)
    return made


def prepare(work: Work) -> RunFacts:
    facts: RunFacts = answered(work, to_prepare(1))
    return facts


def test_a_host_takes_part_by_its_owners_word_only(taking_part: list[Path], work: Work) -> None:
    work.run_trial(RunTrial(party=1, trial=OF_NOISE))
    write_rules(taking_part[1], RULE)
    for ask in (
        lambda: work.run_trial(RunTrial(party=1, trial=OF_NOISE)),
        lambda: work.host.time_links(TimeLinks(others=[])),
    ):
        with pytest.raises(PolicyError, match=r"no benchmark runs; ask its owner to put benchmark = true"):
            ask()
    write_rules(taking_part[1], 'coordinators = ["alice"]\n' + ALLOWED + RULE)
    with pytest.raises(PolicyError, match="start nothing"):
        work.admit(RunTrial)


def test_a_host_takes_part_in_models_that_its_owner_accepts(taking_part: list[Path], work: Work) -> None:
    """Whatever a run is for: a model is a program that reads what the other owners send."""
    write_rules(taking_part[1], f'{ALLOWED}{RULE}security = ["ring"]\n')
    for trial in (OF_NOISE, OF_WEIGHTS):
        with pytest.raises(PolicyError, match="allows benchmark runs of 'ring' only, not of 'mpyc'"):
            work.run_trial(RunTrial(party=1, trial=trial))
    with pytest.raises(PolicyError, match=r"does not allow 'mpyc' for population 'loans' .security: 'ring'"):
        work.preprocess(Preprocess(asked=asked(offline="True"), domain=DOMAIN.to_json()))
    assert "accepts runs of 'ring' only, not of 'mpyc'" in (
        work.host.check(Check(party=1, security=MODEL.name, port=0, client_ports=[])).policy or ""
    )
    assert work.state == NoRun()
    write_rules(taking_part[1], f'{ALLOWED}benchmark_security = ["mpyc"]\n{RULE}security = ["ring"]\n')
    work.run_trial(RunTrial(party=1, trial=OF_NOISE))
    assert work.host.check(Check(party=1, security=MODEL.name, port=0, client_ports=[])).policy is None


def test_no_noise_is_made_ahead_for_a_run_that_the_policy_would_refuse(work: Work) -> None:
    with pytest.raises(PolicyError, match="epsilon_per_run = 2; this one needs"):
        work.preprocess(Preprocess(asked=asked(offline="True", epsilon="3"), domain=DOMAIN.to_json()))
    assert work.state == NoRun()


@pytest.mark.parametrize(
    "sizes", [(0, 23, 2, 2), (10**9, 23, 2, 2), (7, 10**12, 2, 2), (7, 23, 10**4, 10**4)]
)
def test_a_host_makes_up_no_more_than_it_has_room_for(sizes: tuple[int, int, int, int], work: Work) -> None:
    too_large = structs.replace(OF_WEIGHTS, federation=FederationSize(*sizes))
    with pytest.raises(HostUnfitError, match="run on nobody, or on more than 10,000,000"):
        work.run_trial(RunTrial(party=1, trial=too_large))


@pytest.mark.parametrize("samples", [0, 10**9])
def test_a_host_draws_no_more_samples_than_it_has_room_for(samples: int) -> None:
    with pytest.raises(HostUnfitError, match="no samples of noise, or for more than 10,000,000"):
        structs.replace(OF_NOISE, samples=samples).job()


@pytest.mark.parametrize("trial", [OF_WEIGHTS, OF_NOISE], ids=["weights", "noise"])
def test_no_share_is_in_a_benchmark_run(trial: Trial, taking_part: list[Path], work: Work) -> None:
    """Whatever is asked in whatever order, the party holds zeros, and the host's own shares stay unread."""
    for share in (taking_part[1] / "shares").iterdir():
        share.chmod(0)
        os.utime(share, (0, 0))
    work.run_trial(RunTrial(party=1, trial=trial))
    with pytest.raises(HostUnfitError, match="does not answer 'propose' now"):
        answered(work, Propose(asked=asked()))
    assert not {"aggregate", "check_uploads"} & work.handlers.keys()
    assert prepare(work).program_hash
    held = [path.read_bytes() for path in taking_part[1].glob(f"{PREFIX}*/party/Player-Data/*")]
    assert [set(column) for column in held] == ([] if trial is OF_NOISE else [{0}])
    assert all(share.stat().st_atime == 0 for share in (taking_part[1] / "shares").iterdir())
    assert not (taking_part[1] / LEDGER).exists()


def test_a_release_becomes_no_benchmark_run(taking_part: list[Path], stack: ExitStack) -> None:
    work = Coordinator(taking_part[1], stack).prepared(asked(), 1)
    with pytest.raises(HostUnfitError, match=f"as {RunKind.RELEASE}"):
        answered(work, RunTrial(party=1, trial=OF_NOISE))
    with pytest.raises(HostUnfitError, match="does not answer 'go' now"):
        answered(work, to_go({}))


def sending(terms: dict[str, Any], *certificates: str) -> Sending:
    """Return clients that send, of whom a host is told these terms."""
    return Sending(terms=terms, certificates=list(certificates), ports=(1, 2), seconds=1.0)


@pytest.mark.mpspdz("ring")
def test_a_client_with_something_to_protect_is_told_of_no_release(
    taking_part: list[Path], work: Work
) -> None:
    """A coordinator could invite clients to a run that is charged nowhere; the host tells them what it is."""
    form = PI_RW.input_forms["product"].by(CLIENTS)
    sends = asked(population=None, security="ring", input_form=form.name, input_path=form.path.name)
    of_clients = ReleaseTrial(security="ring", asked=sends, federation=FederationSize(2, 2, 2, 2))
    work.run_trial(RunTrial(party=1, trial=of_clients))
    made = planned_for(work, sending({"task": "weights"}, "one", "two"))
    assert made.sending.terms == TERMS and made.run.job.sending == made.sending
    assert [upload.certificate for upload in made.sending.uploads] == ["one", "two"]
    with pytest.raises(ShareError):
        read_terms(TERMS, "What clients are told")
    with pytest.raises(HostUnfitError, match="told of 1 clients that send in a benchmark run of 2"):
        planned_for(work, sending({}, "one"))
    with pytest.raises(HostUnfitError, match="does not answer 'prepare' now, as clients send to its run"):
        prepare(work)
    work.run_trial(RunTrial(party=1, trial=OF_WEIGHTS))
    with pytest.raises(HostUnfitError, match="does not answer 'prepare_invited' now, as it has a run's inp"):
        answered(work, to_prepare_invited(1, sending({})))


@pytest.mark.parametrize(
    "trial",
    [
        structs.replace(OF_WEIGHTS, security="ring"),
        structs.replace(OF_WEIGHTS, asked={}),
        structs.replace(OF_WEIGHTS, asked=asked(population=None, task="pi_cf")),
        structs.replace(OF_NOISE, guarantee=Guarantee(Fraction(-1), Fraction(1))),
        structs.replace(OF_NOISE, guarantee=Guarantee(Fraction(1), Fraction(0))),
    ],
)
def test_what_no_command_asks_for_is_refused(trial: Trial, work: Work) -> None:
    with pytest.raises((FairSharesError, ValueError)):  # noqa: PT012
        work.run_trial(RunTrial(party=1, trial=trial))
        planned(work)


MANY = f'{ANY_PORT}[[population]]\nname = "loans"\nepsilon = 1000\ndelta = "2^-20"\nepsilon_per_run = 2\n'


class Opens(Party):
    """Opens the noise that its host has taken, once it may begin."""

    def __init__(self, piece: Path, opened: Path) -> None:
        self._piece, self._opened = piece, opened

    def go(self, certificates: object) -> None:
        super().go(certificates)
        open_mark(self._piece, self._opened)


def proposed(host: Path, stack: ExitStack) -> tuple[Coordinator, list[str]]:
    """Propose a run that takes noise; return the pieces that the host says it has."""
    coordinator = Coordinator(host, stack)
    return coordinator, coordinator.aggregated(ASKED).pieces


def took(host: Path, hosts: list[Path], opened: Path) -> None:
    """Have a host take a piece and begin, whatever the others remember."""
    with ExitStack() as stack:
        coordinator, pieces = proposed(host, stack)
        work = coordinator.work
        answered(work, to_prepare(0, piece=min(pieces, default=None)))
        let_go(coordinator, work, hosts, Opens(run_of(work).planned.job.pieces[0], opened))


@pytest.mark.parametrize("points", [7, 50])
def test_wherever_a_host_is_killed_no_noise_is_opened_twice(
    points: int, hosts: list[Path], stack: ExitStack, tmp_path: Path
) -> None:
    """Its ledger remembers, though its stock came back from a copy, and no other host remembers anything."""
    write_rules(hosts[0], MANY)
    stock, opened = Stock(hosts[0] / STOCK), tmp_path / "opened"
    terms = run_of(proposed(hosts[0], stack)[0].work).inputs.noise_terms
    stack.close()

    def fill(marks: range) -> None:
        for mark in marks:
            keep_marked(stock, terms, 1, mark)

    kill_at_random_steps(lambda _: took(hosts[0], hosts, opened), fill, stock, points)
    marks = opened.read_text().split()
    assert points // 10 < len(marks) == len(set(marks)) <= len(spent(hosts[0]))


def test_a_host_signs_no_run_with_noise_that_its_ledger_knows(
    hosts: list[Path], stack: ExitStack, tmp_path: Path
) -> None:
    """The stock alone came back from a copy: nobody is charged, and all of the stock is removed."""
    write_rules(hosts[0], MANY)
    with ExitStack() as first:
        terms = run_of(proposed(hosts[0], first)[0].work).inputs.noise_terms
    keep_marked(Stock(hosts[0] / STOCK), terms, 1, 7)
    shutil.copytree(hosts[0] / STOCK, tmp_path / "copy")
    took(hosts[0], hosts, tmp_path / "opened")
    before = spent(hosts[0])
    shutil.rmtree(hosts[0] / STOCK)
    (tmp_path / "copy").rename(hosts[0] / STOCK)
    coordinator, pieces = proposed(hosts[0], stack)
    answered(coordinator.work, to_prepare(0, piece=pieces[0]))
    stand_in(coordinator.work)
    attempts = run_of(coordinator.work).planned.guarded.attempts
    with pytest.raises(UsedNoiseError, match=r"All of it was removed; make new noise\."):
        answered(coordinator.work, to_agree(nonces_of(coordinator.work), attempts))
    assert spent(hosts[0]) == before and not (hosts[0] / STOCK).exists()


@pytest.mark.parametrize("moved", ["", "before it signs", "after it signed"])
def test_a_run_that_took_noise_ends_before_a_lost_run_is_stated_or_at_its_charge(
    moved: str, hosts: list[Path], tmp_path: Path
) -> None:
    """The others kept their parts of noise that a lost run opened: host 0 alone keeps it from a second use.

    While a run has the turn, `hosts.restored` is refused; where the owner moved the directory away from under
    that run, its ledger is another than the run has seen. The host signs nothing then, which charges nobody.
    """
    write_rules(hosts[0], MANY)
    opened = tmp_path / "opened"
    with ExitStack() as stack:
        terms = run_of(proposed(hosts[0], stack)[0].work).inputs.noise_terms
    keep_marked(Stock(hosts[0] / STOCK), terms, 1, 7)
    shutil.copytree(hosts[0], tmp_path / "backup", symlinks=True)
    took(hosts[0], hosts, opened)  # the run whose charge is lost
    lost = Ledger(hosts[0] / LEDGER).head()
    shutil.rmtree(hosts[0])
    (tmp_path / "backup").rename(hosts[0])
    restored = ("--directory", str(hosts[0]), "--population", "loans", "--epsilon", "1", "--delta", "2^-40")

    def move_away() -> None:
        hosts[0].rename(tmp_path / "away")
        shutil.copytree(tmp_path / "away", hosts[0], symlinks=True)
        succeed("hosts.restored", *restored, "--seen", lost, cwd=tmp_path)

    with ExitStack() as stack:
        coordinator, pieces = proposed(hosts[0], stack)
        work = coordinator.work
        answered(work, to_prepare(0, piece=pieces[0]))
        planned = run_of(work).planned
        stand_in(work, Opens(planned.job.pieces[0], opened))
        agree = to_agree(nonces_of(work), planned.guarded.attempts, [lost])
        if moved == "before it signs":
            move_away()
            with pytest.raises(HostUnfitError, match=r"Its ledger was changed .* piece 0{12}, was removed"):
                answered(work, agree)
        else:
            answered(work, agree)
            others = signed_by_all(run_of(work).intent, hosts, seen={"0": lost})
            if moved:
                move_away()
            else:
                said = refused("hosts.restored", *restored, "--seen", lost, cwd=tmp_path)
                assert "Another run is under way on it" in said
            with pytest.raises(HostUnfitError, match=r"Its ledger was changed|does not go on from what"):
                answered(work, to_go(others))
    assert opened.read_text().split() == ["7"]
    if not moved:  # and afterwards the owner states it, which removes the noise
        succeed("hosts.restored", *restored, "--seen", lost, cwd=tmp_path)
        assert not pieces_of(hosts[0])


def pieces_of(host: Path) -> list[Path]:
    return [*(host / STOCK).glob("*/*")]


def test_a_stock_of_another_host_is_none(hosts: list[Path], stack: ExitStack) -> None:
    """Nothing is taken or charged for it."""
    fed = run_of(proposed(hosts[0], stack)[0].work)
    stock = Stock(hosts[0] / STOCK)

    def pieces() -> list[str]:
        terms, names = _noise_ahead(fed.inputs.guard, fed.place, 0, DOMAIN)
        assert terms == fed.inputs.noise_terms
        return names

    keep_marked(stock, fed.inputs.noise_terms, 2, 7)
    assert pieces() == stock.pieces(fed.inputs.noise_terms) != []
    shutil.rmtree(next(stock.directory.glob("*/*/party-0")))
    assert pieces() == [] != stock.pieces(fed.inputs.noise_terms)


@pytest.mark.parametrize("other", ["", "another"])
def test_a_peer_that_denies_a_piece_costs_that_piece_alone(
    other: str, hosts: list[Path], stack: ExitStack
) -> None:
    """Nothing begins, nothing is charged; the next piece stays."""
    stock, coordinator = Stock(hosts[0] / STOCK), proposed(hosts[0], stack)[0]
    terms = run_of(coordinator.work).inputs.noise_terms
    for mark in range(2):
        keep_marked(stock, terms, 1, mark)
    first, second = stock.pieces(terms)
    work = coordinator.work
    answered(work, to_prepare(0, piece=first))
    with pytest.raises(HostUnfitError, match="about to run something else"):
        begun(work, hosts, piece=other)
    assert spent(hosts[0]) == [] and stock.pieces(terms) == [second] and not work.is_running


def test_hosts_take_no_noise_made_ahead_for_clients_that_send() -> None:
    form = PI_RW.input_forms["split"].by(CLIENTS)
    spec = WeightsRequest(epsilon=1, offline=True, input_path=CLIENTS).program_of(PI_RW)
    said = HostsBackend([], MODEL_OF_HOSTS).supports(spec, MODEL_OF_HOSTS, form)
    assert said is not None and "leave out" in said
