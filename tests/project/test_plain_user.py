"""What pages have an owner run works for a user who owns nothing else, by the system's own Python.

The user has a number of its own, an empty home and an empty /tmp, and may write to the two directories alone
that the tutorial has root make. The packages are those of `requirements.lock`.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.support.documents import read
from tests.support.fresh_environment import fresh_invoke

USER = 1234
HOME, CLONE, HOST = "/srv/home", "/srv/FairShares", "/srv/fairshares"
NOT_CLONED = {"docs", "tests", "web"}  # and what has a name with a dot: no environment is there
TIMEOUT_S = 600


def snippets(page: str, *beginnings: str) -> list[str]:
    """Return, of a page's blocks, the text of the first that begins so, for each of these beginnings."""
    blocks = [block.text for block in read(PROJECT / "docs" / page).snippets if block.language == "sh"]
    return [next(block for block in blocks if block.startswith(start)) for start in beginnings]


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
