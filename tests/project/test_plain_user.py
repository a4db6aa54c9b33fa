"""What pages have an owner run works for a user who owns nothing else, by the system's own Python.

The user has a number of its own, an empty home and an empty /tmp, and may write to the two directories alone
that the tutorial has root make. The packages are those of `requirements.lock`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairshares.harness.engines.registry import PREFERRED, choose_model
from tests.conftest import PROJECT
from tests.support.documents import RUN, prints, read, snippets
from tests.support.fresh_environment import fresh_invoke
from tests.support.plain_debian import drive, with_a_clone

USER = 1234
HOME, CLONE, HOST = "/srv/home", "/srv/FairShares", "/srv/fairshares"
NOT_CLONED = {"docs", "tests", "web"}  # and what has a name with a dot: no environment is there
TIMEOUT_S = 600


def as_plain_user(script: str) -> subprocess.CompletedProcess[str]:
    """Run lines of a shell as the user, whose directories root has made as the tutorial says."""
    if os.geteuid() or not shutil.which("bwrap") or not shutil.which("setpriv"):
        pytest.skip("it takes root, bubblewrap and setpriv")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = Path("/usr/bin", name)
    if not python.exists():
        pytest.skip(f"the system has no {name}, for which the packages here are")
    (as_root,) = snippets("tutorials/hosts.md", "adduser")
    made = [line for line in as_root.splitlines() if line.startswith("install -d")]
    directories = "\n".join(made).replace("fairshares -g fairshares", f"{USER} -g {USER}")
    environment = Path(fresh_invoke()[0]).parents[1]
    cloned = [str(path) for path in PROJECT.iterdir() if path.name[0] != "." and path.name not in NOT_CLONED]
    root = f"""{directories}
install -d -o {USER} -g {USER} {HOME}
cp -a {shlex.join(cloned)} {CLONE}
chown -R {USER}:{USER} {CLONE}
chmod -R u+rwX {CLONE}
"""
    app = [str(python), "-P", f"{CLONE}/harness/cli/app.py", "--search-root", CLONE]
    user = f'inv() {{ {shlex.join(app)} "$@"; }}\n{script.replace("./inv", "inv")}'
    drop = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs")
    inside = f"set -eu\n{root}cd {HOST}\nexec {shlex.join([*drop, 'bash', '-euo', 'pipefail', '-c', user])}"
    own = ["--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp"]
    for place in ("/home", "/root", "/srv"):
        own += ["--perms", "0755", "--tmpfs", place]
    own += ["--ro-bind", str(environment), str(environment), "--ro-bind", str(PROJECT), str(PROJECT)]
    variables = {
        "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(environment / "lib" / name / "site-packages"),
    }
    own.append("--clearenv")
    for variable, value in variables.items():
        own += ["--setenv", variable, value]
    alone = ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-add", "ALL")
    return subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", *own, *alone, "bash", "-c", inside],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_an_owner_sets_up_a_host_as_a_user_of_its_own() -> None:
    setup, policy = snippets("how-to/own-a-host.md", "./inv hosts.setup --party 0", "./inv hosts.policy")
    (health,) = snippets("how-to/operate-a-host.md", "./inv hosts.check --directory")
    (
        keys,
        _,
    ) = snippets("how-to/intake.md", "./inv keys", "./inv task")
    first = setup.splitlines()[0]
    script = "\n".join(
        [
            'test "$(id -u)" = 1234 && ! touch /srv/other 2> /dev/null && ! touch /etc/other 2> /dev/null',
            first,
            policy,
            keys.splitlines()[0],
            f"{health.strip()} || test $? = 4",
            "ls -la",
        ]
    )
    done = as_plain_user(script)
    assert done.returncode == 0, done.stderr
    assert "Permission denied" not in done.stderr and "Traceback" not in done.stderr
    for name in ("keys", "policy.toml", "party-0.certificates"):
        assert name in done.stdout


# Three machines' networks, with an sshd each, whose hosts have directories of their own; and a coordinator.
MACHINES = """
ip link set lo up
ip link add bridge type bridge
ip addr add 10.0.0.254/24 dev bridge
ip link set bridge up
ssh-keygen -A > /dev/null
mkdir -p /run/sshd
adduser --quiet --disabled-password --gecos "" alice
as alice 'mkdir -m 700 .ssh; cd .ssh
    ssh-keygen -q -t ed25519 -N "" -f id_ed25519
    cp id_ed25519 fairshares'
as fairshares 'mkdir -m 700 .ssh'
install -o fairshares -m 600 ~alice/.ssh/id_ed25519.pub ~fairshares/.ssh/authorized_keys
for i in 0 1 2; do
    ip netns add host-$i
    ip link add to-$i type veth peer name eth0 netns host-$i
    ip link set to-$i master bridge up
    ip -n host-$i addr add 10.0.0.1$i/24 dev eth0
    ip -n host-$i link set lo up
    ip -n host-$i link set eth0 up
    ip netns exec host-$i bash -euc '
        mount --make-rprivate /
        mount -t tmpfs -o mode=700,uid=fairshares,gid=fairshares tmpfs /srv/fairshares
        exec /usr/sbin/sshd'
    as alice "ssh-keyscan -t ed25519 10.0.0.1$i >> .ssh/known_hosts 2> /dev/null"
done
as alice 'ln -s /srv/FairShares/inv inv'
install -o alice -g alice -t ~alice /given/steps/*
"""


def test_the_tutorial_of_hosts_runs_as_written_on_three_machines(tmp_path: Path) -> None:
    """By the user `fairshares` of each, and by a coordinator that owns nothing there but a key for ssh."""
    given, work = tmp_path / "given", tmp_path / "work"
    (given / "steps").mkdir(parents=True)
    work.mkdir()
    page = read(PROJECT / "docs" / "tutorials" / "hosts.md")
    (hosts,) = [snippet.text for snippet in page.snippets if snippet.language == "toml"]
    (given / "steps" / "hosts.toml").write_text(hosts)
    steps = [snippet for snippet in page.snippets if snippet.language in RUN and not snippet.not_run]
    script = MACHINES
    for number, step in enumerate(steps):
        name = f"step-{number}.{step.language}"
        (given / "steps" / name).write_text(step.text)
        program = "bash -euo pipefail" if step.language == "sh" else "/srv/FairShares/.venv/bin/python"
        script += f"echo '== {name}'\nas alice 'export PYTHONPATH=/srv/FairShares; {program} {name} 2>&1'\n"
    done = drive(with_a_clone() + script, given, work)
    assert done.code == 0, done.said
    printed = re.split("^== .*\n", done.said, flags=re.MULTILINE)[1:]
    preferred = choose_model(None).name
    for step, found in zip(steps, printed, strict=True):
        if step.output is not None:
            shown = re.sub(rf"\b{PREFERRED}\b", preferred, step.output.text)
            assert prints(shown, found, exact=False), f"{page}:{step.line} prints:\n{found}"
