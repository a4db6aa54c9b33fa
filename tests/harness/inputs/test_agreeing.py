"""Uploads that are not sound at every party are left out by all alike, whatever a client sends to whom."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs.encoding import shared_over
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind
from harness.inputs.records import ClientRecords
from harness.inputs.rings import XOR
from harness.inputs.shares.file_format import ClientPolicy, UploadKind, check_aggregates, extract_values
from harness.inputs.shares.party import (
    ANY,
    CROWDED,
    FOREIGN,
    MISDIRECTED,
    NOT_THE_SAME,
    RENAMED,
    SAYS,
    UNCOVERED,
    UNDECLARED,
    UNREADABLE,
    WRONG_SIZE,
    UploadPolicy,
    UploadReport,
    aggregate,
    common_uploads,
    paths_of,
    read_lists,
    report_from_json,
    uploads_at,
    write_uploads,
)
from harness.pipeline.party_inputs import feed_heads, sound_uploads
from harness.pipeline.sources import SharesSource
from harness.security_models import MODELS, SecurityModel
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import KEYS, SLOTS, SPLIT, InputForm
from tests.support.misbehaving import (
    MISBEHAVIOURS,
    copy_under_another_name,
    misbehave,
)
from tests.support.requests import request_of
from tests.support.rings import to_integers
from tests.support.sharing import all_covered, allowing, context, share

RING = MODELS["ring"]
RELEASE = request_of(RING, SLOTS, Fraction(1), Fraction(1, 2**40))
PARTIES = 3
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(4))


def client(*cells: int, domain: RecordDomain = DOMAIN) -> ClientRecords:
    """Return one client's records, by their cells; of no score, where they have one."""
    cell = np.array(cells, dtype=np.int64)
    detail = 0 * cell if domain.kind.of_each else None
    return ClientRecords(domain, np.array(["c"], dtype=object), 0 * cell, cell // 2, cell % 2, detail)


def counted(aggregates: list[Path], directory: Path) -> list[int]:
    """Return the codes that the parties' aggregates share, sorted."""
    values = [extract_values(path, directory / f"values-{i}") for i, path in enumerate(aggregates)]
    shares = np.stack([XOR.from_bytes(path.read_bytes()) for path in values], axis=-2)
    return sorted(to_integers(XOR, XOR.total(shares)))


def three_uploads(shares: Path) -> str:
    """Share for two honest clients, and for one that is to misbehave; return its upload."""
    for cells in ((0, 0, 3), (1,)):
        share(client(*cells), SLOTS, XOR, PARTIES, shares)
    return share(client(2, 2, 2, 2), SLOTS, XOR, PARTIES, shares)


def taken(shares: Path, out: Path, rules: UploadPolicy = ANY) -> tuple[list[int], Mapping[str, int]]:
    """Return the codes that parties take of these uploads, sorted, and how many are left out, by why."""
    uploads, left_out, _ = sound_uploads(shares, SLOTS, RING, rules, all_covered)
    out = out / f"taken-{len(list(out.iterdir()))}"
    aggregates = [out / f"{i}.aggregate" for i in range(PARTIES)]
    for i, path in enumerate(aggregates):
        aggregate(i, shares / f"party-{i}", path, uploads[i])
    assert check_aggregates(aggregates).form == SLOTS.name
    return counted(aggregates, out), left_out


OF_HONEST = [0, 0, 0, 0, 1, 1, 2, 4]


def fed(
    shares: Path, out: Path, form: InputForm, model: SecurityModel
) -> tuple[list[bytes], Mapping[str, int]]:
    """Return what parties are fed of these uploads, byte by byte, and how many are left out, by why."""
    out.mkdir()
    uploads, left_out, _ = sound_uploads(shares, form, model, ANY, all_covered)
    for i, paths in enumerate(uploads):
        aggregate(i, shares / f"party-{i}", out / f"{i}", paths)
    return [(out / f"{i}").read_bytes() for i in range(model.parties)], left_out


@pytest.mark.parametrize(
    ("model", "form", "party"),
    [("semi2k", SLOTS, 0), ("ring", SLOTS, None), ("rep4-ring", SLOTS, 3), ("ring", KEYS, None)],
)
def test_honest_clients_are_fed_the_same_whatever_others_upload(
    model: str, form: InputForm, party: int | None, tmp_path: Path
) -> None:
    """All ways to misbehave, one client each, towards one party, or alike towards all."""
    chosen, shares = MODELS[model], tmp_path / "shares"
    domain = DOMAIN.with_kind(RecordKind.SCORE) if form is KEYS else DOMAIN
    over = shared_over(form, chosen.domain)
    for cells in ((0, 0, 3), (1,)):
        share(client(*cells, domain=domain), form, over, chosen.parties, shares)
    alone, _ = fed(shares, tmp_path / "alone", form, chosen)
    why: Counter[str] = Counter()
    for name, what in MISBEHAVIOURS.items():
        reason = what.at_all if party is None else what.at_one
        if not reason or (form is KEYS and name == "another arithmetic"):
            continue  # it is that
        bad = share(client(2, 2, 2, 2, domain=domain), form, over, chosen.parties, shares)
        misbehave(
            what.change, shares, bad, range(chosen.parties) if party is None else range(party, party + 1)
        )
        named = party is not None and reason != NOT_THE_SAME
        why[reason + (SAYS.format(party=party) if named else "")] += 1
    assert fed(shares, tmp_path / "among", form, chosen) == (alone, why) and len(why) > 4


@pytest.mark.parametrize("name", [name for name in MISBEHAVIOURS if name.startswith(("a link", "a pipe"))])
def test_what_is_no_file_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    """Where all uploads have to be sound; it is neither followed nor waited for."""
    bad = three_uploads(tmp_path / "shares")
    misbehave(MISBEHAVIOURS[name].change, tmp_path / "shares", bad, range(1))
    with pytest.raises(ShareError, match=f"^Cannot read .*{bad}.share: it is no file, or a link to one; put"):
        aggregate(0, tmp_path / "shares" / "party-0", tmp_path / "0.aggregate")
    assert not (tmp_path / "0.aggregate").exists()


def test_an_aggregate_among_uploads_stands_for_none_of_them(tmp_path: Path) -> None:
    """Else a client could name its file so that it replaced all others'."""
    one, own = three_uploads(tmp_path / "shares"), tmp_path / "shares" / "party-0"
    (own / f"{one}.share").rename(own / "mine.aggregate")
    for read in (
        lambda: uploads_at(0, own),
        lambda: aggregate(0, own, tmp_path / "0.aggregate"),
        lambda: sound_uploads(tmp_path / "shares", SLOTS, RING, ANY, all_covered),
        lambda: sound_uploads(tmp_path / "shares", SPLIT, RING, ANY, all_covered),
        lambda: SharesSource(tmp_path / "shares").describe(context(RELEASE, tmp_path)),
    ):
        with pytest.raises(ShareError, match=r"holds the upload [0-9a-f]{64}\.share and .* mine\.aggregate"):
            read()
    assert not (tmp_path / "0.aggregate").exists()


@pytest.mark.parametrize("party", [0, 2])
def test_who_knows_an_uploads_identity_cannot_have_it_left_out(party: int, tmp_path: Path) -> None:
    victim, shares = three_uploads(tmp_path / "shares"), tmp_path / "shares"
    copy_under_another_name(shares, victim, party)
    assert taken(shares, tmp_path) == (sorted([0] * 4 + [1, 1, 2, 4] + [3] * 4), {RENAMED: 1})


def test_a_seed_stands_for_no_values_at_the_last_party(tmp_path: Path) -> None:
    """Else a few bytes would be thousands of clients with records of all kinds."""
    bad, shares = three_uploads(tmp_path / "shares"), tmp_path / "shares"
    seed = (shares / "party-0" / f"{bad}.share").read_bytes()
    (shares / "party-2" / f"{bad}.share").write_bytes(seed.replace(b'"party": 0', b'"party": 2'))
    assert taken(shares, tmp_path) == (OF_HONEST, {MISDIRECTED + SAYS.format(party=2): 1})


def test_two_that_claim_two_clients_at_other_parties_shift_nobodys_slots(tmp_path: Path) -> None:
    """All parties have uploads of as many clients; what is between the two would be put together wrongly."""
    shares, twos = tmp_path / "shares", np.full(2, 2)
    for parties in ([0], [1, 2]):
        two = ClientRecords(DOMAIN, np.array(["c", "d"], dtype=object), np.arange(2), twos // 2, twos % 2)
        made = share(two, SLOTS, XOR, PARTIES, shares)
        for i in set(range(PARTIES)).difference(parties):
            (shares / f"party-{i}" / f"{made}.share").unlink()
    for _ in range(3):
        share(client(0, 0), SLOTS, XOR, PARTIES, shares)
    assert taken(shares, tmp_path) == ([0] * 6 + [1] * 6, {NOT_THE_SAME: 2})
    aggregates = [tmp_path / f"all-{i}.aggregate" for i in range(PARTIES)]
    for i, path in enumerate(aggregates):
        aggregate(i, shares / f"party-{i}", path)
    with pytest.raises(ShareError, match="Party 1 has other uploads than party 0"):
        check_aggregates(aggregates)


MORE = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(40))


def test_most_uploads_or_the_user_say_what_the_domain_is(tmp_path: Path) -> None:
    shares = tmp_path / "shares"
    share(client(0, domain=DOMAIN), SLOTS, XOR, PARTIES, shares)
    for _ in range(2):
        share(client(*[1] * 40, domain=MORE), SLOTS, XOR, PARTIES, shares)
    assert taken(shares, tmp_path) == ([2] * 80, {FOREIGN: 1})
    assert taken(shares, tmp_path, UploadPolicy(MORE)) == ([2] * 80, {UNDECLARED: 1})
    assert taken(shares, tmp_path, UploadPolicy(DOMAIN)) == ([0, 0, 0, 1], {UNDECLARED: 2})
    third = RecordDomain(("a", "b", "c"), ("0", "1"))
    with pytest.raises(ShareError, match=r"party: 3 of another domain than was declared\. .*\"cap\": 10"):
        sound_uploads(shares, SLOTS, RING, UploadPolicy(third), all_covered)
    share(client(0, domain=DOMAIN), SLOTS, XOR, PARTIES, shares)
    with pytest.raises(ShareError, match=r"4 uploads are of 2 domains .*; say by --domain"):
        sound_uploads(shares, SLOTS, RING, ANY, all_covered)


def test_an_upload_of_more_clients_than_one_may_be_of(tmp_path: Path) -> None:
    """It is as long as it says, at all parties, and would count for each of them."""
    shares, zeros = tmp_path / "shares", np.zeros(3, dtype=np.int64)
    share(client(3), SLOTS, XOR, PARTIES, shares)
    crowd = ClientRecords(DOMAIN, np.array(["c", "d", "e"], dtype=object), np.arange(3), zeros, zeros)
    share(crowd, SLOTS, XOR, PARTIES, shares)
    assert taken(shares, tmp_path) == ([0] * 12 + [1] * 3 + [4], {})
    assert taken(shares, tmp_path, UploadPolicy(clients=3)) == ([0] * 12 + [1] * 3 + [4], {})
    assert taken(shares, tmp_path, UploadPolicy(clients=2)) == ([0, 0, 0, 4], {CROWDED: 1})
    for i in range(PARTIES):
        aggregate(i, shares / f"party-{i}", tmp_path / f"party-{i}.aggregate")
    with pytest.raises(ShareError, match="uploads holds 3 clients, more than --clients-per-upload 2"):
        feed_heads(sorted(tmp_path.glob("party-*")), SLOTS, RING, policy=UploadPolicy(clients=2))


def test_counts_of_clients_do_not_overflow_whatever_a_client_may_have(tmp_path: Path) -> None:
    """In slots each counts once, so one that says it is of many does not end the run."""
    many = RecordDomain(("a", "b"), ("0", "1"), 2**61, kind=RecordKind.SIZE)
    for _ in range(2):
        share(client(1, domain=many), SLOTS, XOR, PARTIES, tmp_path)
    assert aggregate(0, tmp_path / "party-0", tmp_path / "out").clients == 2


@pytest.mark.parametrize("of_run", [1, 2])
def test_if_most_are_of_another_form_the_user_is_wrong(of_run: int, tmp_path: Path) -> None:
    """Of half it is not clear, and they go on."""
    shares = tmp_path / "shares"
    for _ in range(of_run):
        share(client(0), SLOTS, XOR, PARTIES, shares)
    for _ in range(2):
        share(client(0), SPLIT, RING.domain, PARTIES, shares)
    if of_run == 1:
        with pytest.raises(
            ShareError, match=r"shares are split over ring64 for 3 parties; .* slots takes slots over xor64"
        ):
            SharesSource(shares).describe(context(RELEASE, tmp_path))
    else:
        inputs = SharesSource(shares).describe(context(RELEASE, tmp_path))
        assert (inputs.clients, inputs.excluded) == (2, {FOREIGN: 2})
        public = inputs.public(SLOTS)
        assert (public["excluded_uploads"], public["excluded_because"]) == (2, {FOREIGN: 2})


def test_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(ShareError, match="No upload is sound at every party: there is none"):
        sound_uploads(tmp_path, SLOTS, RING, ANY, all_covered)
    bad = share(client(0), SLOTS, XOR, PARTIES, tmp_path)
    misbehave(lambda file: file.write_bytes(b""), tmp_path, bad, range(PARTIES))
    with pytest.raises(ShareError, match="No upload is sound at every party: 1 unreadable or of another"):
        sound_uploads(tmp_path, SLOTS, RING, ANY, all_covered)


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_all_parties_take_the_same_whoever_computes_it(shift: int) -> None:
    """The sets of uploads do not depend on the order; of differing reasons that of party 0 is given."""
    kinds = [UploadKind("slots", "xor64", 3, name) for name in "xy"]
    sound: list[dict[str, UploadKind]] = [
        {"a:1:0": kinds[0], "b:1:0": kinds[0], "c:1:0": kinds[1], "e:1:0": kinds[0]},
        {"a:1:0": kinds[0], "b:1:0": kinds[0], "c:1:0": kinds[1], "d:1:0": kinds[0]},
        {"a:1:0": kinds[0], "b:1:0": kinds[0], "c:1:0": kinds[1], "e:2:0": kinds[0]},
    ]
    reports = [
        UploadReport(0, sound[0], {"d": WRONG_SIZE}),
        UploadReport(1, sound[1], {}),
        UploadReport(2, sound[2], {"d": UNREADABLE}),
    ]
    agreement = common_uploads([*reports[shift:], *reports[:shift]])
    assert agreement.taken == {"a:1:0", "b:1:0"}
    first = {0: WRONG_SIZE, 1: UNREADABLE, 2: UNREADABLE}[shift]
    assert agreement.left_out == {first: 1, FOREIGN: 1, NOT_THE_SAME: 1}


def test_lists_on_file_are_what_all_agree_on(tmp_path: Path) -> None:
    shares, lists = tmp_path / "shares", tmp_path / "lists"
    bad = three_uploads(shares)
    misbehave(lambda file: file.write_bytes(b""), shares, bad, range(1, 2))
    reports = [uploads_at(i, shares / f"party-{i}") for i in range(PARTIES)]
    for report in reports:
        write_uploads(report, lists / f"party-{report.party}.uploads")
        written = json.loads((lists / f"party-{report.party}.uploads").read_text())
        assert report_from_json(written, "the list") == report
    agreement = read_lists(lists)
    assert agreement == common_uploads(reports) and len(agreement.taken) == 2
    assert agreement.left_out == {UNREADABLE + SAYS.format(party=1): 1}
    for report in reports:
        files = paths_of(agreement.taken, report, Path())
        assert [path.stem for path in files] == sorted(name.partition(":")[0] for name in agreement.taken)
    with pytest.raises(ShareError, match="Party 1 no longer has all uploads"):
        paths_of({f"{bad}:1:0"}, reports[1], Path())


def test_a_name_that_is_no_text_is_listed_and_nobody_has_two_voices(tmp_path: Path) -> None:
    """Or a client could end all runs by a file's name, and a party call another a liar alone."""
    three_uploads(tmp_path)
    Path(os.fsdecode(os.fsencode(tmp_path / "party-0") + b"/\xff.share")).write_bytes(b"")
    report = uploads_at(0, tmp_path / "party-0")
    write_uploads(report, tmp_path / "party-0.uploads")
    assert report_from_json(json.loads((tmp_path / "party-0.uploads").read_text()), "the list") == report
    assert UNREADABLE in report.unsound.values()
    kind = next(iter(report.sound.values()))
    two = UploadReport(0, {"a:1:0": kind, "x:1:0": kind, "x:2:0": kind}, {})
    others = [UploadReport(1, {"a:1:0": kind}, {}), UploadReport(2, {"a:1:0": kind}, {"x": UNREADABLE})]
    assert common_uploads([two, *others]).left_out == {UNREADABLE: 1}


LIST = {"schema": 1, "party": 0, "sound": [], "unsound": {}}


@pytest.mark.parametrize(
    "change",
    [
        *("", "[]", "{}", json.dumps({**LIST, "schema": 2}), json.dumps({**LIST, "party": "0"})),
        json.dumps({**LIST, "unsound": {"a": "as its client has the record 7"}}),
        json.dumps({**LIST, "sound": [{"form": "slots", "uploads": ["a"]}]}),
        json.dumps(
            {**LIST, "sound": [{**{name: [] for name in UploadKind.__dataclass_fields__}, "uploads": ["a"]}]}
        ),
    ],
)
def test_damaged_lists_are_refused(change: str, tmp_path: Path) -> None:
    (tmp_path / "party-0.uploads").write_text(change)
    with pytest.raises(ShareError, match="is not a party's list"):
        read_lists(tmp_path)


def test_a_list_of_each_party_is_needed(tmp_path: Path) -> None:
    kind = UploadKind("slots", "xor64", 2, "x")
    write_uploads(UploadReport(1, {"a": kind}, {}), tmp_path / "party-1.uploads")
    with pytest.raises(ShareError, match="one list of uploads per party"):
        read_lists(tmp_path)
    write_uploads(UploadReport(0, {"b": kind}, {}), tmp_path / "party-0.uploads")
    with pytest.raises(ShareError, match="No upload is sound at every party: 2 not the same"):
        read_lists(tmp_path)
    kind = replace(kind, parties=3)
    for party in range(2):
        write_uploads(UploadReport(party, {"a": kind}, {}), tmp_path / f"party-{party}.uploads")
    with pytest.raises(ShareError, match="lists of 2 parties, of uploads for 3"):
        read_lists(tmp_path)


ALLOWS = allowing(("weights",), "1", "1/2", PrivacyUnit.RECORD)


@pytest.mark.parametrize("form", [SLOTS, SPLIT], ids=lambda form: form.name)
def test_whose_policy_does_not_cover_a_run_is_left_out(form: InputForm, tmp_path: Path) -> None:
    """Whatever the form; who asks is told the domain that uploads are of, and the policies there are."""
    shares, over = tmp_path / "shares", shared_over(form, RING.domain)
    free = [share(client(1), form, over, PARTIES, shares) for _ in range(2)]
    kept = share(client(1), form, over, PARTIES, shares, ALLOWS)
    gone = [share(client(1), form, over, PARTIES, shares, ALLOWS) for _ in range(2)]
    seen: list[object] = []

    def uncovered(domain: RecordDomain, policies: Mapping[str, ClientPolicy]) -> list[str]:
        seen.append((domain, dict(policies)))
        return gone

    paths, left_out, policies = sound_uploads(shares, form, RING, ANY, uncovered)
    assert seen == [(DOMAIN, dict.fromkeys([kept, *gone], ALLOWS))]
    for i, own_paths in enumerate(paths):
        assert own_paths is not None and {path.stem for path in own_paths} == {*free, kept}
        assert {path.parent.name for path in own_paths} == {f"party-{i}"}
    assert left_out == {UNCOVERED: 2} and policies == {kept: ALLOWS}
    release = RELEASE.but(form=form)
    fed = SharesSource(shares).describe(context(release, tmp_path, uncovered))
    assert (fed.clients, fed.excluded, fed.policies) == (3, {UNCOVERED: 2}, {kept: ALLOWS})
    for batch in free:
        misbehave(Path.unlink, shares, batch, range(PARTIES))
    with pytest.raises(ShareError, match=f"No upload is left for this run: 3 {UNCOVERED}"):
        sound_uploads(shares, form, RING, ANY, lambda _, policies: list(policies))


def test_an_upload_of_another_kind_has_no_say_in_what_a_run_is_judged_by(tmp_path: Path) -> None:
    """Else a client who declares what no run can be of would end it."""
    seen: list[RecordDomain] = []

    def uncovered(domain: RecordDomain, policies: Mapping[str, ClientPolicy]) -> list[str]:
        seen.append(domain)
        return []

    for i in range(4):  # files come in any order
        for most, other in ((DOMAIN, MORE), (MORE, DOMAIN)):
            shares = tmp_path / f"{i}-{len(seen)}"
            for domain in (most, most, other):
                share(client(1, domain=domain), SLOTS, XOR, PARTIES, shares, ALLOWS)
            sound_uploads(shares, SLOTS, RING, ANY, uncovered)
    assert seen == [DOMAIN, MORE] * 4


def test_in_a_form_that_trusts_clients_a_renamed_file_keeps_its_policy(tmp_path: Path) -> None:
    for policy in (None, ALLOWS):
        batch = share(client(1), SPLIT, RING.domain, PARTIES, tmp_path, policy)
    path = tmp_path / "party-1" / f"{batch}.share"
    path.rename(path.with_name("mine.share"))
    paths, left_out, _ = sound_uploads(tmp_path, SPLIT, RING, ANY, lambda _, policies: list(policies))
    assert [len(own_paths or []) for own_paths in paths] == [1, 1, 1] and left_out == {UNCOVERED: 1}


def test_a_host_says_whose_policy_does_not_cover_a_run(tmp_path: Path) -> None:
    batches = [share(client(1), SLOTS, XOR, PARTIES, tmp_path, ALLOWS) for _ in range(3)]
    reports = [uploads_at(i, tmp_path / f"party-{i}") for i in range(PARTIES)]
    assert all(report.policies == dict.fromkeys(batches, ALLOWS) for report in reports)
    reports[1] = report_from_json(reports[1].without(batches[:1]).to_json(), "its list")
    agreement = common_uploads(reports)
    assert agreement.batches == set(batches[1:])
    assert agreement.left_out == {UNCOVERED + SAYS.format(party=1): 1}  # which the others would not say
