"""Hosts whose owners set them up and write policies, by commands on each host."""

import json
import shutil
from pathlib import Path

from tests.conftest import PROJECT
from tests.support.command import call
from tests.support.coordinators import RULE, have_port, write_rules
from tests.support.ssh import Site, site, write_key


def test_a_policy_is_written_once_then_checked_and_shown(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir(mode=0o700)
    policy = ["hosts.policy", "--directory", "host"]
    first = call(*policy, cwd=tmp_path)
    assert first.returncode == 0 and "policy.toml is new; edit it" in first.stderr, first.stderr
    assert "Nothing has been spent yet." in first.stdout and "for runs of everybody" in first.stdout
    assert "benchmark" not in first.stdout
    write_rules(tmp_path / "host", 'coordinators = ["alice"]\nbenchmark = true\n' + RULE)
    assert "for runs of alice; with benchmark runs" in " ".join(call(*policy, cwd=tmp_path).stdout.split())
    found = json.loads(call(*policy, "--json", cwd=tmp_path).stdout)
    assert found["coordinators"] == ["alice"] and found["benchmark"] is True and found["spent"] == {}
    (rule,) = found["population"]
    assert (rule["epsilon"], rule["epsilon_per_run"], rule["delta_per_run"]) == ("4", "2", "1/1048576")
    write_rules(tmp_path / "host", RULE + "espilon = 1\n")
    wrong = call(*policy, cwd=tmp_path)
    assert wrong.returncode == 1 and "unknown key 'espilon' (did you mean epsilon?)" in wrong.stderr
    nowhere = call("hosts.policy", "--directory", "nowhere", cwd=tmp_path)
    assert nowhere.returncode == 1 and "There is no directory nowhere" in nowhere.stderr
    assert call("hosts.policy", cwd=tmp_path).returncode == 1


def test_owners_set_hosts_up_and_a_starter_may_start_their_agents_only(tmp_path: Path) -> None:
    """Its key sets nothing up, and runs what each host's owner allows; all hosts sign that."""
    with site(tmp_path, 3) as hosts:
        for i in range(3):
            restrict_to_agent(hosts, i)
            hosts = hosts.with_host(i, key_file=str(hosts.ssh_directory / f"key-{i}"))
        refused = call("hosts.setup", cwd=hosts.home)
        assert refused.returncode == 1 and "this ssh key may start the agent only" in refused.stderr
        assert not any(hosts.directory(i).exists() for i in range(3))

        own = [["--party", str(i), "--directory", str(hosts.directory(i))] for i in range(3)]
        for options in own:
            assert call("hosts.setup", *options, cwd=tmp_path).returncode == 0
        files = [str(hosts.directory(i) / f"party-{i}.certificates") for i in range(3)]
        for i, options in enumerate(own):
            pins = ",".join(path for path in files if path != files[i])
            done = call("hosts.setup", *options, "--pin", pins, cwd=tmp_path)
            assert done.returncode == 0 and done.stdout.count("embedded") == 3, done.stderr
            write_rules(hosts.directory(i), f'coordinators = ["{"alice" if i else "bob"}"]\n{RULE}')
            have_port(hosts.directory(i), hosts.hosts[i].port, hosts.hosts[i].client_port)

        (hosts.home / "records.csv").write_text("client_id,group,label\nme,a,0\nyou,b,1\n")
        declared = ["--groups", "a,b", "--labels", "0,1", "--max-count", "5", "--security", "mpyc"]
        share = call("share", "--records", "records.csv", "--out", "shares", *declared, cwd=hosts.home)
        assert share.returncode == 0, share.stderr
        for i in range(3):
            shutil.copytree(hosts.home / "shares" / f"party-{i}", hosts.directory(i) / "shares")
        run = ["weights", "--hosts", "hosts.toml", "--security", "mpyc", "--epsilon", "1"]
        run += ["--population", "loans", "--out", "results"]
        refused = call(*run, cwd=hosts.home)
        assert (
            refused.returncode == 1 and "(party 0): Its policy lets 'alice' start nothing" in refused.stderr
        )
        assert not any((hosts.directory(i) / "ledger.sqlite").exists() for i in range(3))

        write_rules(hosts.directory(0), RULE)
        have_port(hosts.directory(0), hosts.hosts[0].port, hosts.hosts[0].client_port)
        done = call(*run, cwd=hosts.home)
        assert done.returncode == 0, done.stderr
        assert call("verify", "results", cwd=hosts.home).returncode == 0
        for i in range(3):
            shown = call("hosts.policy", "--directory", str(hosts.directory(i)), cwd=tmp_path).stdout
            assert "Population 'loans' has spent ε = 0.9971" in shown and "in 1 run." in shown


def restrict_to_agent(hosts: Site, i: int) -> None:
    """Add a key that may start one host's agent, as the how-to page has it, and nothing else."""
    public = write_key(hosts.ssh_directory / f"key-{i}")
    python = PROJECT / ".venv" / "bin" / "python"
    agent = f"{python} -P -m harness.hosts.agent {hosts.directory(i)} '' alice"
    line = f'restrict,command="cd {PROJECT} && PYTHONPATH=$PWD exec {agent}" {public}\n'
    with (hosts.ssh_directory / "authorized_keys").open("a") as file:
        file.write(line)
