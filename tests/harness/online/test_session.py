"""What clients believe of a server on a host: what its owner's key signed for this run and party."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.charged import BegunCharge
from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.errors import ShareError
from fairshares.harness.hosts.signed_results import BenchmarkIntent, InputSource, Intent, Statement, sign
from fairshares.harness.online.client import Invitations, read_invitation
from fairshares.harness.online.session import Server
from fairshares.harness.pipeline.sources import request_of_run, terms_of
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.spec import CLIENTS
from tests.support.command import refused
from tests.support.coordinators import DOMAIN, asked

pytestmark = pytest.mark.usefixtures("in_shell")

PARTIES = 3
NONCES = ["0", "1", "2"]


class Owners:
    """Owners of hosts, whose keys sign. Attributes: servers: what clients are told of a run."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.keys = [self._key(f"owner-{i}", f"P{i}") for i in range(PARTIES)]
        self.shown = [self.run_key(i) for i in range(PARTIES)]
        self.servers = [
            Server("127.0.0.1", 1 + i, self.shown[i], self.signed(self.intent(i), i)) for i in range(PARTIES)
        ]

    def run_key(self, party: int) -> str:
        """Return the certificate of a new key of a run."""
        return self._key(f"run-{len(list(self.place.iterdir()))}", f"P{party}").read_text()

    def intent(self, party: int, **changes: Any) -> Intent:
        made = Intent(
            NONCES,
            party,
            "0" * 32,
            "2027-01-01",
            asked(),
            {},
            InputSource.INVITED,
            {},
            "u",
            "h",
            "MP-SPDZ",
            0,
            run_certificate=self.shown[party],
        )
        return replace(made, **changes)

    def signed(self, said: Any, by: int) -> Signed:
        return sign(said, self.keys[by])

    def _key(self, name: str, common_name: str) -> Path:
        (self.place / name).mkdir(parents=True)
        return make_key(self.place / name, "key", common_name)


@pytest.fixture
def owners(tmp_path: Path) -> Owners:
    return Owners(tmp_path / "owners")


def invited(place: Path, servers: list[Server]) -> Path:
    """Return an invitation with these servers, as a coordinator could write it."""
    sends = asked(security="ring", input_form="product", input_path=CLIENTS.name)
    terms = terms_of(request_of_run(sends), DOMAIN)
    with Invitations([("certificate", "key")], terms, place).begin(servers, BegunCharge()):
        text = (place / "client-0.json").read_text()
    (place / "invitation.json").write_text(text)
    return place / "invitation.json"


def test_an_invitation_tells_the_owners_by_whom_servers_are_certified(owners: Owners, tmp_path: Path) -> None:
    servers = read_invitation(invited(tmp_path, owners.servers)).servers
    assert [server.certificate for server in servers] == owners.shown
    assert [server.owner for server in servers] == [key.read_text() for key in owners.keys]


def of_another_run(owners: Owners) -> dict[str, Any]:
    """An earlier run of the same owner, whose key for it somebody has."""
    return {"signed": owners.signed(owners.intent(1, nonces=["a", "b", "c"]), 1)}


def of_another_certificate(owners: Owners) -> dict[str, Any]:
    return {"certificate": owners.run_key(1)}


def of_another_party(owners: Owners) -> dict[str, Any]:
    return asdict(owners.servers[2]) | {"signed": owners.servers[2].signed}


def of_a_benchmark(owners: Owners) -> dict[str, Any]:
    said = BenchmarkIntent(NONCES, 1, "0" * 32, "2027-01-01", "t", "h", "MP-SPDZ", owners.shown[1])
    return {"signed": owners.signed(said, 1)}


def of_a_result(owners: Owners) -> dict[str, Any]:
    said = Statement(owners.intent(1), {}, ("1", "0"), {}, {}, "2027-01-01")
    return {"signed": owners.signed(said, 1)}


def changed_after_it_was_signed(owners: Owners) -> dict[str, Any]:
    own = owners.run_key(1)
    right = owners.servers[1].signed
    assert right is not None
    text = json.dumps({**json.loads(right.said), "run_certificate": own}, sort_keys=True)
    return {"certificate": own, "signed": replace(right, said=text)}


def of_nobody(owners: Owners) -> dict[str, Any]:
    return {"certificate": owners.run_key(1), "signed": None}


@pytest.mark.parametrize(
    ("substituted", "said"),
    [
        (of_another_run, "the owners of its parties signed different runs"),
        (of_another_certificate, "of party 1 was signed for another certificate"),
        (of_another_party, "of party 1 was signed for another party"),
        (of_a_benchmark, "of party 1 has no signature of that party's owner"),
        (of_a_result, "of party 1 has no signature of that party's owner"),
        (changed_after_it_was_signed, "of party 1 has no signature of that party's owner"),
        (of_nobody, "the owners of some parties signed nothing"),
    ],
)
def test_a_substituted_certificate_is_refused(
    substituted: Callable[[Owners], dict[str, Any]], said: str, owners: Owners, tmp_path: Path
) -> None:
    """A coordinator writes invitations as it likes: no server of its own takes a party's place."""
    servers = list(owners.servers)
    servers[1] = replace(servers[1], **substituted(owners))
    with pytest.raises(ShareError, match=rf"invitation\.json is not .*: .*{said}; ask for a new one\.$"):
        read_invitation(invited(tmp_path, servers))


def test_owners_of_a_coordinators_own_have_other_fingerprints(owners: Owners, tmp_path: Path) -> None:
    """All fits together, but the client knows the owners; without signatures, it knows nobody."""
    known = tmp_path / "known.txt"
    known.write_text("\n".join(fingerprint(key.read_bytes()) for key in owners.keys))
    (tmp_path / "records.csv").write_text("client_id,group,label\nme,a,0\n")
    others = Owners(tmp_path / "others")
    unsigned = [replace(server, signed=None) for server in others.servers]
    for servers in (others.servers, unsigned, owners.servers[::-1]):
        path = invited(tmp_path, servers)
        options = ("--invitation", str(path), "--records", "records.csv", "--fingerprints", str(known))
        said = refused("send", *options, cwd=tmp_path)
        assert "than --fingerprints names" in said or "was signed for another party" in said
