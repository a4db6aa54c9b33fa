"""A host for tests, and what a coordinator asks of it: by the agent's requests, as a hostile one would."""

import json
import re
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from harness.engines.registry import engines
from harness.hosts import keys
from harness.hosts.policy import FILE, LEDGER
from harness.hosts.signed_results import Signed, UploadList, sign
from harness.hosts.work import Work
from harness.inputs.encoding import shared_over
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.shares.party import ANY, UploadPolicy, UploadReport
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from harness.request.releases import REQUESTS, WeightsRequest
from harness.security_models import SecurityModel, get_model
from protocols.spec import PI_RW, SHARES, InputPath
from tests.support.sharing import share

MODEL = get_model("mpyc")
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10)
ANY_PORT = "port = 0\n"
RULE = ANY_PORT + '[[population]]\nname = "loans"\nepsilon = 4\ndelta = "2^-20"\nepsilon_per_run = 2\n'


def asked(task: str = "weights", **changes: Any) -> dict[str, str]:
    """Return what a coordinator asks for: weights of the loans at ε = 1 unless said otherwise.

    Args: changes: of the request's JSON; None for a field that is left out.
    """
    request = REQUESTS.get(task, WeightsRequest)(epsilon=1, security=MODEL, population="loans")
    found = {**request.to_json(), "task": task, **changes}
    return {name: text for name, text in found.items() if text is not None}


def records(rows: int = 1) -> ClientRecords:
    """Return one client's."""
    each = np.zeros(rows, dtype=np.int64)
    return ClientRecords(DOMAIN, np.array(["me"], dtype=object), each, each, each)


def make_hosts(
    directory: Path,
    policy: str = RULE,
    clients: int = 1,
    model: SecurityModel = MODEL,
    path: InputPath = SHARES,
) -> list[Path]:
    """Return hosts' directories: set up, with each its shares of the same clients, and this policy."""
    hosts = [directory / f"host-{i}" for i in range(model.parties)]
    own = [keys.make_keys(host, i, renew=False) for i, host in enumerate(hosts)]
    certificates = {name: {i: texts[name] for i, texts in enumerate(own)} for name in engines()}
    for i, host in enumerate(hosts):
        keys.pin(host, i, certificates)
        write_rules(host, policy)
    form = PI_RW.input_forms["split"].by(path)
    for _ in range(clients):
        share(records(), form, shared_over(form, model.domain), model.parties, directory / "shares")
    for i, host in enumerate(hosts if clients else ()):
        (directory / "shares" / f"party-{i}").rename(host / "shares")
    return hosts


def write_rules(host: Path, policy: str) -> None:
    """Write a host's policy, as its owner would."""
    (host / FILE).write_text(policy)
    (host / FILE).chmod(0o600)


class Coordinator:
    """A connection to a host's agent, in this process. Attributes: work: what answers."""

    def __init__(self, host: Path, stack: ExitStack, name: str = "") -> None:
        self.work = Work(host, stack, name)

    def go(self, hosts: list[Path], **others: Any) -> None:
        """Let the prepared party begin, with what the other hosts sign. Args: others: they sign otherwise."""
        party = self.work.run.laid_out().number
        listed = {i: each.nonce for i, each in self.work.release.uploads.heard.items()}
        nonces = [self.work.run.nonce if i == party else listed.get(i, f"{i}") for i in range(MODEL.parties)]
        signed = {str(party): self.work.release.agree(nonces, now())}
        assert self.work.release.intent is not None
        for i, host in enumerate(hosts):
            own = host / "keys" / "embedded" / f"P{i}.pem"
            if i != party:
                signed[str(i)] = sign(replace(self.work.release.intent, **{"party": i, **others}), own)
        self.work.run._is_ready = True  # the party's process, in whose place is none
        self.work.run.go({name: Signed(**one) for name, one in signed.items()})

    def tell(self, hosts: list[Path], run: dict[str, str], party: int = 0, rules: UploadPolicy = ANY) -> None:
        """Have all hosts list their uploads for a proposed run, and tell this one the others' lists.

        Args: rules: that the others are told.
        """
        self.work.release.uploads.check_uploads(party, ANY.to_json())
        for i, host in enumerate(hosts):
            if i != party:
                with ExitStack() as stack:
                    other = Coordinator(host, stack).work
                    other.propose(run)
                    self.work.release.uploads.take_list(
                        i, Signed(**(other.release.uploads.check_uploads(i, rules.to_json()) or {}))
                    )

    def prepared(self, run: dict[str, str], party: int = 0) -> Work:
        """Return the host's work once a party is ready to start. Raises: whatever the host refuses by."""
        self.work.propose(run)
        self.work.release.uploads.aggregate(party)
        self.work.run.prepare("0" * 32, party, [("127.0.0.1", 0)] * MODEL.parties)
        return self.work


class Party:
    """Takes the place of a process; says whether it was let go."""

    number, gone = 0, False

    def go(self, _certificates: object) -> None:
        self.gone = True

    def kill(self) -> None: ...

    def close(self) -> None: ...


def spent(host: Path) -> list[tuple[str, Fraction, Status]]:
    """Return what a host's ledger has: of whom, ε, and what became of the run."""
    return [
        (each.name, charge.exact.epsilon, charge.status)
        for each in Ledger(host / LEDGER).populations()
        for charge in each.charges
    ]


def ran(hosts: list[Path], party: int = 0, found: Party | None = None, **changes: Any) -> Party:
    """Prepare a party on its host and let it go, of which nothing runs; return it."""
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[party], stack)
        return let_go(coordinator, coordinator.prepared(asked(**changes), party), hosts, found)


def let_go(coordinator: Coordinator, work: Work, hosts: list[Path], found: Party | None = None) -> Party:
    made = found or Party()
    made.number = work.run.laid_out().number
    work.run._party = made  # type: ignore[assignment]
    coordinator.go(hosts)
    return made


def listed(work: Work, party: int = 0, rules: UploadPolicy = ANY) -> UploadReport:
    """Return what a host says, signed, of its uploads."""
    signed = work.release.uploads.check_uploads(party, rules.to_json())
    assert signed is not None
    return UploadList(**json.loads(signed["said"])).report(party)


def have_port(host: Path, port: int, client_port: int = 0) -> None:
    """Have a host's owner choose where its party listens, and where its gateway does."""
    text = re.sub("^(client_)?port = .*\n", "", (host / FILE).read_text(), flags=re.MULTILINE)
    write_rules(host, f"port = {port}\nclient_port = {client_port}\n{text}")


def now() -> datetime:
    """Return the time by which a coordinator says that a run starts."""
    return datetime.now(UTC)
