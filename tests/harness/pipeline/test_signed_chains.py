"""A chain's runs on hosts add up only as hosts signed them, and by certificates that are known or alike."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import fairshares as fs
from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.errors import OptionError, SignatureError
from fairshares.harness.hosts.signed_results import SCHEMA, InputSource, Intent, Statement, sign, signers_of
from fairshares.harness.pipeline.chains import add_up
from fairshares.harness.privacy.manifest import SIGNATURES
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import write_json
from fairshares.protocols.noise.added import offset
from tests.harness.pipeline.test_chains import DOMAIN, Place
from tests.support.command import refused, succeed

pytestmark = pytest.mark.usefixtures("in_shell")

RUN, STARTED = "{:032x}", "2026-01-01T00:00:00+00:00"
PARTIES = 3


@pytest.fixture
def owners(tmp_path: Path) -> list[Path]:
    return new_keys(tmp_path / "owners")


@pytest.fixture
def strangers(tmp_path: Path) -> list[Path]:
    """Return keys that somebody made who is no host's owner."""
    return new_keys(tmp_path / "strangers")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return two runs of a chain, as hosts leave them, but for the signatures."""
    place = Place(tmp_path)
    outs = []
    for number in range(2):
        place.upload(number, 2)
        run = place.run()
        manifest = json.loads((run.out / "manifest.json").read_text())
        hosts = {
            "run": RUN.format(number),
            "started": STARTED,
            "source": InputSource.UPLOADS,
            "population": "people",
        }
        write_json(run.out / "manifest.json", {**manifest, "hosts": hosts})
        exact = run.found.counts.table - offset(run.found.counts.noise)
        (run.out.parent / f"{run.out.name}.counts").write_text(json.dumps(exact.ravel().astype(int).tolist()))
        outs.append(run.out)
    return outs


def new_keys(place: Path) -> list[Path]:
    place.mkdir()
    return [make_key(place, f"P{i}", f"MPyC party {i}") for i in range(PARTIES)]


def known(*of_hosts: Sequence[Path]) -> list[str]:
    return [fingerprint(path.read_bytes()) for keys in of_hosts for path in keys]


def signed_by(keys: Sequence[Path], directory: Path) -> None:
    """Have keys sign a run's results, whoever has them."""
    manifest = json.loads((directory / "manifest.json").read_text())
    counts = json.loads((directory.parent / f"{directory.name}.counts").read_text())
    signatures = []
    for party, key in enumerate(keys):
        intent = Intent(
            nonces=["0", "1", "2"],
            party=party,
            run=manifest["hosts"]["run"],
            started=STARTED,
            asked=manifest["request"],
            domain=DOMAIN.to_json(),
            source=InputSource.UPLOADS,
            inputs=manifest["inputs"],
            uploads="aa",
            program_hash="",
            engine_version="rigged",
            compared=0,
            run_certificate=key.read_text(),
        )
        spent = (manifest["privacy"]["epsilon_exact"], manifest["privacy"]["delta_exact"])
        met = {str(i): fingerprint(other.read_bytes()) for i, other in enumerate(keys) if i != party}
        ended = Statement(intent, met, spent, {"counts": counts}, {}, STARTED)
        signatures.append(sign(ended, key))
    signed = [as_json(one) for one in signatures]
    write_json(directory / SIGNATURES, {"schema": SCHEMA, "signed": signed})


def test_runs_of_known_hosts_add_up(runs: list[Path], owners: list[Path]) -> None:
    for directory in runs:
        signed_by(owners, directory)
    total = add_up(runs, signers_of(runs), known(owners))
    assert total.signed and total.compared and total.manifest.inputs.clients == 4
    total = add_up(runs, signers_of(runs))
    assert total.signed and not total.compared


def test_anybody_can_sign_results_that_nobody_made(
    runs: list[Path], owners: list[Path], strangers: list[Path]
) -> None:
    """Whoever makes up three keys signs what he likes, and only the owners' fingerprints tell."""
    signed_by(owners, runs[0])
    signed_by(strangers, runs[1])
    with pytest.raises(SignatureError) as error:
        add_up(runs, signers_of(runs), known(owners))
    assert str(error.value) == (
        f"Other hosts signed {runs[1]} than --fingerprints names, in the order of the parties; compare the "
        "certificates that ./inv verify shows with what the hosts' owners say."
    )
    with pytest.raises(SignatureError) as error:
        add_up(runs, signers_of(runs))
    assert str(error.value) == (
        f"Other certificates signed {runs[1]} than {runs[0]}, and nobody says whose they are; name the "
        "SHA-256 of each owner's certificates by --fingerprints."
    )
    with pytest.raises(SignatureError, match="than --fingerprints names"):
        add_up(runs, signers_of(runs), known(owners)[::-1])
    with pytest.raises(SignatureError, match="than --fingerprints names"):
        add_up(runs, signers_of(runs), known(owners)[:2])


def test_after_a_renewal_both_certificates_are_named(
    runs: list[Path], owners: list[Path], tmp_path: Path
) -> None:
    renewed = new_keys(tmp_path / "renewed")
    signed_by(owners, runs[0])
    signed_by(renewed, runs[1])
    assert add_up(runs, signers_of(runs), known(owners, renewed)).compared
    mixed = [renewed[0], *owners[1:]]
    signed_by(mixed, runs[1])
    with pytest.raises(SignatureError, match="than --fingerprints names"):
        add_up(runs, signers_of(runs), known(owners, renewed))
    assert add_up(runs, signers_of(runs), known(owners, mixed)).compared


@pytest.mark.parametrize("which", [0, 1])
def test_a_run_without_its_signatures_does_not_count_beside_signed_ones(
    which: int, runs: list[Path], owners: list[Path]
) -> None:
    """Else whoever removes them could change the counts, also if he takes the run for one of one machine."""
    for directory in runs:
        signed_by(owners, directory)
    (runs[which] / SIGNATURES).unlink()
    edit_manifest(runs[which], lambda manifest: manifest.pop("hosts"))
    for names in (None, known(owners)):
        with pytest.raises(SignatureError, match=f"{runs[which].name} has no {SIGNATURES}, so nobody signed"):
            add_up(runs, signers_of(runs), names)


def test_a_run_on_hosts_without_signatures_does_not_count_at_all(runs: list[Path]) -> None:
    with pytest.raises(SignatureError, match="out-1 is of a run on hosts and has no signatures"):
        add_up(runs, signers_of(runs))
    for directory in runs:
        edit_manifest(directory, lambda manifest: manifest.pop("hosts"))
    total = add_up(runs, signers_of(runs))
    assert not total.signed and not total.compared
    with pytest.raises(SignatureError, match=f"has no {SIGNATURES}"):
        add_up(runs, signers_of(runs), ["AA"] * PARTIES)


def test_what_hosts_did_not_sign_does_not_count(runs: list[Path], owners: list[Path]) -> None:
    for directory in runs:
        signed_by(owners, directory)
    edit_manifest(runs[1], lambda manifest: manifest["inputs"].update(clients=3))
    for names in (None, known(owners)):
        with pytest.raises(SignatureError, match="its 'inputs' is another"):
            add_up(runs, signers_of(runs), names)


def edit_manifest(directory: Path, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    fields = json.loads((directory / "manifest.json").read_text())
    change(fields)
    write_json(directory / "manifest.json", fields)


def test_the_command_and_python_say_whether_anybody_knows_the_signers(
    runs: list[Path], owners: list[Path], strangers: list[Path], tmp_path: Path
) -> None:
    for directory in runs:
        signed_by(owners, directory)
    for name, keys in (("owners.txt", owners), ("strangers.txt", strangers)):
        (tmp_path / name).write_text("".join(f"sha256 Fingerprint={text}\n" for text in known(keys)))
    add = ("weights", "--add", ",".join(path.name for path in runs))
    said = succeed(*add, "--out", "a", cwd=tmp_path)
    assert "nobody has compared them with what the hosts' owners say" in " ".join(said.split())
    said = succeed(*add, "--out", "b", "--fingerprints", "owners.txt", cwd=tmp_path)
    assert "The hosts that --fingerprints names signed each of these runs." in " ".join(said.split())
    said = refused(*add, "--out", "c", "--fingerprints", "strangers.txt", cwd=tmp_path)
    assert "Other hosts signed out-1 than --fingerprints names" in said and not (tmp_path / "c").exists()
    said = refused(
        "weights", "--records", "x", "--epsilon", "1", "--fingerprints", "owners.txt", cwd=tmp_path
    )
    assert "--fingerprints goes with --add" in said

    assert "nobody has compared them" in " ".join(str(fs.load(*runs)).split())
    loaded = fs.load(*runs, fingerprints=tmp_path / "owners.txt")
    assert "The hosts that fingerprints= names signed each of these runs." in " ".join(str(loaded).split())
    with pytest.raises(SignatureError, match="than fingerprints= names"):
        fs.load(*runs, fingerprints=tmp_path / "strangers.txt")
    with pytest.raises(OptionError, match="fingerprints= goes with further runs"):
        fs.load(runs[0], fingerprints=tmp_path / "owners.txt")
