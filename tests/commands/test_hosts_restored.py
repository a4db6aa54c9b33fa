"""A host whose ledger came back from a backup: a run over ssh is refused, and charged nowhere."""

import re
import shutil
from pathlib import Path

import pytest

from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.security_models import MODELS, SecurityModel
from tests.support.command import refused, succeed
from tests.support.running import model_parameters
from tests.support.ssh import Site, set_up, site

OWN = "own.sqlite"  # the ledger of the machine that starts runs


def ledgers(made: Site) -> dict[Path, bytes]:
    """Return what is in the ledger of the machine that starts runs, and in those of all hosts."""
    files = [made.home / OWN, *(made.directory(host.party) / LEDGER for host in made.hosts)]
    return {file: file.read_bytes() for file in files}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["mpyc"]]))
def test_a_run_with_a_restored_host_is_charged_nowhere(model: SecurityModel, tmp_path: Path) -> None:
    """The refusal says the way out, by which the next run is a result that is charged everywhere."""
    run = (
        *("weights", "--hosts", "hosts.toml", "--security", model.name, "--epsilon", "1"),
        *("--population", "people", "--ledger", OWN),
    )
    with site(tmp_path, model.parties) as made:
        set_up(made, model)
        restored = made.directory(0) / LEDGER
        succeed(*run, "--out", "first", cwd=made.home)
        shutil.copy(restored, tmp_path / "backup")
        succeed(*run, "--out", "second", cwd=made.home)
        shutil.copy(tmp_path / "backup", restored)

        before = ledgers(made)
        said = refused(*run, "--out", "third", cwd=made.home)  # with exit code 1
        assert re.search(
            r"Error: The ledger of party 0 does not go on from what party 1 and party 2 have seen of it: it "
            r"was restored from a backup, or copied\. Its owner compares its runs with theirs, and goes on "
            r"by \./inv hosts\.restored --seen [0-9a-f]{64}\.$",
            said,
        )
        assert ledgers(made) == before and not (made.home / "third").exists()

        seen = said.rstrip(".").rpartition(" ")[2]
        own = ("--directory", str(made.directory(0)), "--population", "people", "--epsilon", "1")
        succeed("hosts.restored", *own, "--seen", seen, cwd=made.home)
        succeed(*run, "--out", "third", cwd=made.home)
        assert all(now != then for now, then in zip(ledgers(made).values(), before.values(), strict=True))
