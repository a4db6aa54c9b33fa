"""No command leaves what it later trusts, or sends, where other users can put something of theirs."""

import asyncio
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.errors import (
    FairSharesError,
    HostUnfitError,
    OptionError,
    PolicyError,
    RecordsError,
    ShareError,
)
from fairshares.harness.hosts.host_keys import make_keys
from fairshares.harness.hosts.local_host import check_directory as check_directory_of_host
from fairshares.harness.hosts.policy import first_policy, read_policy, write_policy
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.online.client import Invitation, check_directory
from fairshares.harness.online.session import Server
from fairshares.harness.security_models import MODELS
from fairshares.harness.system.places import make_own_directory, place_fault
from fairshares.harness.uploads.client import share
from fairshares.harness.uploads.counted_records import records_left
from fairshares.harness.uploads.files import check_place
from fairshares.harness.uploads.keys import (
    PARTY_FILE,
    SealingParty,
    check_place_of_keys,
    make_place_of_keys,
    secrets_in,
    signing_key,
)
from fairshares.harness.uploads.limited_connections import Connection, PutEnd
from fairshares.harness.uploads.sending import send
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import SPLIT
from tests.support.command import refused, succeed
from tests.support.sharing import trial

pytestmark = pytest.mark.usefixtures("in_shell")

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(3))
# Which modes of a directory allow others to rename what another user made in it.
MODES = [(0o700, False), (0o755, False), (0o775, True), (0o2775, True), (0o777, True), (0o1777, False)]
OF_GROUP = 0o2775  # as projects share directories


@pytest.fixture
def one() -> ClientRecords:
    zero = np.array([0])
    return ClientRecords(DOMAIN, np.array(["k"]), zero, zero, zero)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Return a directory in which a group works."""
    made = tmp_path / "group"
    made.mkdir()
    made.chmod(OF_GROUP)
    return made


def names_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.mark.parametrize(("mode", "unsafe"), MODES)
@pytest.mark.parametrize("below", ["", "mine/shares"])
@pytest.mark.parametrize("is_there", [False, True])
def test_shares_are_not_written_where_others_can_replace_them(
    *, is_there: bool, below: str, mode: int, unsafe: bool, one: ClientRecords, group: Path, tmp_path: Path
) -> None:
    """The one who writes there, or in a directory above, renames `party-0` and puts another in its place."""
    task = trial(DOMAIN, SPLIT, MODELS["ring"], tmp_path / "task")
    out = group / below
    if is_there:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = names_below(group)
    group.chmod(mode)
    if not unsafe:
        (identity,) = share(task, one, out)
        assert {path.stem for path in out.glob("party-*/*.share")} == {identity}
        return
    with pytest.raises(ShareError) as error:
        share(task, one, out)
    assert str(error.value) == (
        f"Other users can write to {group}, so others could replace shares; name another --out, or chmod "
        "go-w it."
    )
    assert names_below(group) == before


@pytest.mark.parametrize("place", ["party-0", "", "..", "../.."])
def test_nothing_is_sent_from_where_others_can_replace_it(
    place: str, one: ClientRecords, group: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their envelopes would be sent by this client's certificate."""

    def stored(*_: object) -> PutEnd:
        return PutEnd(201, "HTTP 201")

    monkeypatch.setattr(Connection, "put", stored)
    task = trial(DOMAIN, SPLIT, MODELS["ring"], tmp_path / "task")
    group.chmod(0o700)
    out = group / "mine" / "shares"
    share(task, one, out)
    before = names_below(group)
    opened = (out / place).resolve()
    opened.chmod(OF_GROUP)
    with pytest.raises(ShareError) as error:
        send(out, ["https://127.0.0.1:1/"] * 3)
    assert str(error.value) == (
        f"Other users can write to {opened}, so others could have put uploads of theirs in the place of "
        "yours; nothing was sent. Share again, by a new --out in a directory that only you can change."
    )
    assert names_below(group) == before


def test_a_missing_directory_of_uploads_is_still_said_to_be_missing(group: Path) -> None:
    group.chmod(0o700)
    with pytest.raises(ShareError, match=r"^Cannot send from .*: No such file or directory; share first"):
        send(group / "none", ["https://127.0.0.1:1/"] * 3)


def test_what_was_shared_is_not_remembered_where_others_can_change_it(
    one: ClientRecords, group: Path, tmp_path: Path
) -> None:
    """Else a client shares more than its cap, as somebody else put an older file there."""
    records, counted = tmp_path / "mine.csv", group / "counted.json"
    records.write_text("client_id,group,label\nk,a,0\n")
    with pytest.raises(RecordsError) as error:
        records_left(one, records, counted)
    assert str(error.value) == (
        f"Other users can write to {group}, so others could replace {counted}, which tells what was shared; "
        "nothing was shared. Name another --counted, or take that right away (chmod go-w)."
    )
    assert names_below(group) == set()
    group.chmod(0o755)
    assert records_left(one, records, counted).clients == 1 and counted.exists()


@pytest.mark.parametrize("below", ["", "mine/keys"])
def test_keys_are_made_and_used_where_nobody_else_can_replace_them(below: str, group: Path) -> None:
    """Clients seal for what `party.json` says, and whoever replaced it before could read what they share."""
    directory = group / below
    with pytest.raises(ShareError, match=rf"^Other users can write to {group}, so others could replace the"):
        make_place_of_keys(directory)
    assert names_below(group) == set()
    group.chmod(0o700)
    make_place_of_keys(directory)
    SealingParty("P", "", []).with_new_key(directory, "2999-01-01", False)
    assert len(secrets_in(directory)) == 1
    signing_key(directory)
    group.chmod(OF_GROUP)
    for read in (check_place_of_keys, secrets_in, signing_key):
        with pytest.raises(ShareError) as error:
            read(directory)
        assert str(error.value) == (
            f"Other users can write to {group}, so others could replace the keys in {directory}; take that "
            "right away (chmod go-w) if they are as you made them, or make others in a directory that only "
            "you can change."
        )


def test_commands_refuse_such_places(group: Path, tmp_path: Path) -> None:
    """A task, of whose keys clients go by; a party's keys; and the aggregate that a run takes."""
    until = ("--until", "2999-01-01")
    why = f"Other users can write to {group}"
    assert why in refused("keys", "--directory", "group/keys", *until, cwd=tmp_path)
    assert names_below(group) == set()
    for i in range(3):
        succeed("keys", "--directory", f"keys-{i}", *until, cwd=tmp_path)
    parties = ",".join(f"keys-{i}/{PARTY_FILE}" for i in range(3))
    declared = ("--groups", "a,b", "--labels", "0,1", "--security", "mpyc", "--least-uploads", "1")
    made = ("--parties", parties, *declared, *until)
    said = refused("task", "group/task.json", *made, cwd=tmp_path)
    assert why in said and "could replace group/task.json; nothing was written" in said
    succeed("task", "task.json", *made, cwd=tmp_path)
    (tmp_path / "my.csv").write_text("client_id,group,label\nm,a,0\n")
    shared = ("share", "--task", "task.json", "--records", "my.csv", "--out")
    said = refused(*shared, "group", cwd=tmp_path)
    assert why in said and "others could replace shares" in said
    succeed(*shared, "sent", cwd=tmp_path)
    # Lists are signed, so parties may exchange them in such a directory.
    own = [
        ("--task", "task.json", "--party", str(i), "--keys", f"keys-{i}", "--shares", "sent")
        for i in range(3)
    ]
    for i in range(3):
        succeed("uploads", *own[i], "--out", f"group/party-{i}.uploads", cwd=tmp_path)
    counted = ("aggregate", *own[0], "--uploads", "group", "--out")
    assert "group/all/a; nothing was written" in refused(*counted, "group/all/a", cwd=tmp_path)
    succeed(*counted, "all/party-0.aggregate", cwd=tmp_path)
    # Sums are sealed for their party, and nobody without its secret key makes another that it takes.
    kept = {f"party-{i}.uploads.count" for i in (1, 2)}
    assert names_below(group) == {f"party-{i}.uploads" for i in range(3)} | kept
    (tmp_path / "keys-0").chmod(OF_GROUP)
    assert "keys-0, so others could replace the keys" in refused(
        "keys", "--directory", "keys-0", cwd=tmp_path
    )


@pytest.mark.parametrize("below", ["", "mine/host"])
def test_a_host_is_not_set_up_where_others_can_replace_it(below: str, group: Path) -> None:
    directory = group / below
    with pytest.raises(HostUnfitError) as error:
        make_keys(directory, 0, renew=False)
    assert str(error.value) == (
        f"Other users can write to {group}, so others could replace this host's keys and policy; take that "
        "right away (chmod go-w), or set the host up in another directory."
    )
    assert names_below(group) == set()
    group.chmod(0o700)
    assert make_keys(directory, 0, renew=False)
    write_policy(directory, first_policy(["mpyc"]))
    check_directory_of_host(directory)
    read_policy(directory)
    group.chmod(OF_GROUP)
    with pytest.raises(HostUnfitError, match=rf"^Other users can write to {group}$"):
        check_directory_of_host(directory)
    with pytest.raises(PolicyError, match=r"^Others can change "):
        read_policy(directory)


def test_invitations_are_not_written_below_what_others_can_rename(group: Path) -> None:
    """A client would get the key, and the addresses, that somebody else chose."""
    directory = group / "mine"
    directory.mkdir(mode=0o700)
    with pytest.raises(OptionError, match=rf"^Other users can write to {group}, so others could replace inv"):
        check_directory(directory, 1)
    group.chmod(0o700)
    check_directory(directory, 1)


def test_a_check_covers_the_directory_itself_and_all_above(group: Path) -> None:
    directory = group / "mine"
    directory.mkdir(mode=0o700)
    assert place_fault(directory) == f"Other users can write to {group}"
    group.chmod(0o1777)
    assert place_fault(directory) is None
    assert place_fault(group) == f"Other users can write to {group}"
    (group / "link").symlink_to(directory)
    assert place_fault(group / "link") == f"{group / 'link'} is not a directory of its own"


def test_what_is_made_for_a_refused_place_goes_again(group: Path, tmp_path: Path) -> None:
    (group / "there").mkdir()
    assert make_own_directory(group / "there" / "a" / "b") == f"Other users can write to {group}"
    assert names_below(group) == {"there"}
    assert make_own_directory(tmp_path / "a" / "b") is None
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ShareError, match=r"out; nothing was written\. Name a file elsewhere"):
        check_place(group / "new" / "out")
    assert names_below(group) == {"there"}


def test_a_clients_key_is_not_written_where_others_can_replace_it(
    group: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads keys from files only, so an invitation's is in the temporary directory for a while."""
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(group))
    invitation = Invitation(0, "certificate", "key", (Server("127.0.0.1", 1, "other"),), JsonFields())
    with pytest.raises(FairSharesError, match=r"set TMPDIR to a directory that only you can change\.$"):
        asyncio.run(invitation.ready_to_send(np.array([1]), 1.0).__aenter__())
    assert names_below(group) == set()
