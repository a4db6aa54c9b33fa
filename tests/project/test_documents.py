"""What the README and the site show does what they say; what is not run says why, and names what there is."""

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairshares.harness.cli.command_line import OF_ALL
from fairshares.harness.engines.registry import PREFERRED, choose_model
from fairshares.harness.system.files import in_turn
from tasks import namespace
from tests.conftest import PROJECT
from tests.support.command import call
from tests.support.documents import RUN, SHOWN, Page, Snippet, pages, prints, read
from tests.support.fresh_environment import fresh_invoke
from tests.support.plain_debian import lacking
from tests.support.roles import APART
from tests.support.ssh import site

PAGES = pages()
TIMEOUT_S = 600
_MACHINE = ("faketime", "ip", "nginx", "openssl", "ssh-keygen", "sshd")
_ON_MACHINES = "docs/tutorials/hosts.md"
OPTIONS_OF_ALL = ("--help", "--list", "--version")


def parameters() -> Iterator[Any]:
    for page in PAGES:
        if str(page) == _ON_MACHINES and lacking() is None:
            continue  # tests/project/test_plain_user.py runs it, on three machines
        if APART in page.said:
            continue  # tests/project/test_roles.py runs it
        if page.errors or any(snippet.language in RUN and not snippet.not_run for snippet in page.snippets):
            marks = pytest.mark.mpspdz() if "needs MP-SPDZ" in page.said else ()
            yield pytest.param(page, id=str(page), marks=marks)


def given(directory: Path) -> dict[str, Any]:
    """Write what a page may take a reader to have; return what Python has of it.

    my.csv, scored.csv, predicted.csv, values.csv: 200 clients, 2,000 records; mine.csv: one client.
    theirs.csv: scored.csv with other names of columns.
    """
    rng = np.random.default_rng(1)
    label, group = rng.random(2000) < 0.6, rng.random(2000) < 0.3
    score = np.clip(0.35 + 0.3 * label - 0.1 * group + rng.normal(0, 0.15, 2000), 0, 1).round(3)
    frame = pd.DataFrame(
        {
            "client_id": [f"client-{i}" for i in rng.integers(0, 200, 2000)],
            "group": np.where(group, "b", "a"),
            "label": np.where(label, "approved", "denied"),
            "score": score,
            "prediction": np.where(score > 0.5, "approved", "denied"),
        }
    )
    records = frame.assign(label=label.astype(int))[["client_id", "group", "label"]]
    records.to_csv(directory / "my.csv", index=False)
    records[records.client_id == "client-1"].to_csv(directory / "mine.csv", index=False)
    frame.drop(columns="prediction").to_csv(directory / "scored.csv", index=False)
    others = {"client_id": "branch", "group": "ethnicity", "label": "outcome", "score": "s"}
    frame.drop(columns="prediction").rename(columns=others).to_csv(directory / "theirs.csv", index=False)
    frame.drop(columns="score").to_csv(directory / "predicted.csv", index=False)
    values = frame.drop_duplicates("client_id")[["client_id", "group"]].assign(value="17/20")
    values.to_csv(directory / "values.csv", index=False)
    (directory / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 100}\n')
    command = directory / "inv"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(fresh_invoke())} "$@"\n')
    command.chmod(0o700)
    X = frame[["score"]].to_numpy()  # noqa: N806
    model = LogisticRegression().fit(X, frame.label)
    of_clients = {"groups": group.astype(int), "rates": score}
    return {"df": frame, "X": X, "y": frame.label, "model": model, **of_clients}


def run_shell(text: str, directory: Path) -> str:
    """Run lines of a shell, commands as where no test ever ran; return what they print."""
    finished = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=directory, capture_output=True, text=True,
        timeout=TIMEOUT_S, env={**os.environ, "COLUMNS": "80"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def run_python(snippet: Snippet, page: Page, names: dict[str, Any], directory: Path) -> str:
    code = compile("\n" * (snippet.line - 1) + snippet.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.chdir(directory), contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


@contextlib.contextmanager
def a_machine_of_its_own(page: Page, directory: Path) -> Iterator[None]:
    """Have a page make networks, in a clone; its last block removes them. Skip where it cannot."""
    needed = [*_MACHINE, "/run/netns"] if os.geteuid() else _MACHINE  # nobody but root can make networks
    if lacking := [
        name for name in needed if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]:
        pytest.skip(f"it takes root and {', '.join(lacking)}")
    for name in (".venv", "Programs", "docs", "data", "fairshares", "harness", "protocols"):
        (directory / name).symlink_to(PROJECT / name)
    with in_turn(Path("/run")):  # names of networks are the machine's
        try:
            yield
        finally:
            run_shell(page.snippets[-1].text, directory)


@pytest.mark.parametrize("page", list(parameters()))
def test_a_page_does_what_it_says(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snippet runs, in one directory and one namespace, and prints what is shown.

    Pages show the default model where there is MP-SPDZ; without it, outputs name another.
    """
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("MPLBACKEND", "agg")
    with contextlib.ExitStack() as stack:
        directory = tmp_path
        if page.hosts is not None:
            parties = page.hosts or choose_model(None).parties
            directory = stack.enter_context(site(tmp_path, parties)).home
            copying = tmp_path / "bin" / "scp"  # to the host that the address ends with
            copying.parent.mkdir()
            copying.write_text(
                '#!/bin/sh\n[ "$1" = -r ] && shift\nfor last; do :; done\nhost=${last%%:*}\n'
                f'to="{tmp_path}/host-${{host##*.1}}/${{last#*:/srv/fairshares/}}"\n'
                'while [ $# -gt 1 ]; do cp -r "$1" "$to" || exit; shift; done\n'
            )
            copying.chmod(0o700)
            monkeypatch.setenv("PATH", f"{copying.parent}:{os.environ['PATH']}")
        if "in namespaces" in page.said:
            stack.enter_context(a_machine_of_its_own(page, tmp_path))
        names = given(directory)
        for snippet in page.snippets:
            if snippet.language not in RUN or snippet.not_run:
                continue
            where = f"{page}:{snippet.line}"
            printed = (
                run_python(snippet, page, names, directory)
                if snippet.language == "python"
                else run_shell(snippet.text, directory)
            )
            if snippet.output:
                said = snippet.output.said
                shown = re.sub(rf"\b{PREFERRED}\b", choose_model(None).name, snippet.output.text)
                if any(comment.startswith("rows vary") for comment in said):
                    shown = re.sub("^│.*$", "…", shown, flags=re.MULTILINE)
                assert prints(shown, printed, exact="exact" in said), f"{where} prints:\n{printed}"
        for line, command, message in page.errors:
            done = call(*shlex.split(command)[1:], cwd=directory)
            assert done.returncode != 0, f"{page}:{line}: {command}"
            assert prints(message, done.stderr, exact=True), f"{page}:{line}: {done.stderr}"


def faults(page: Page) -> Iterator[str]:
    """Yield a sentence for each block that may or may not be run, and each name that is no more."""
    for snippet in page.snippets:
        at, first = f"{page}:{snippet.line}", snippet.text.lstrip().partition("\n")[0]
        if snippet.language not in (*RUN, *SHOWN) and not snippet.language.startswith("{"):
            yield f"{at}: a block is of {', '.join(RUN)}, which run, or {', '.join(SHOWN)}: {first}"
        elif any(comment.startswith("not run") for comment in snippet.said) and not snippet.not_run:
            yield f"{at}: it does not say why it is not run: {first}"
        elif snippet.language == "sh":
            lines = snippet.text.replace("\\\n", " ").splitlines()
            yield from (f"{at}: {fault}" for line in lines for fault in unknown(line))
        elif snippet.language == "text" and re.search(r"^\s*\./inv ", snippet.text, re.M):
            yield f"{at}: this is a command, and no text: {first}"
    for line, text in page.spans:
        yield from (f"{page}:{line}: {fault}" for fault in unknown(text))


def dead_links(page: Page) -> Iterator[str]:
    """Yield the links of a page to files that are not there, or to headings that a page has not got."""
    for line, link in page.links:
        file, _, anchor = link.partition("#")
        target = (page.path.parent / file) if file else page.path
        if re.match(r"[a-z]+:", link):
            continue
        if not target.exists():
            yield f"{page}:{line}: {link} is not there"
        elif anchor and target.suffix == ".md" and anchor not in read(target).anchors:
            yield f"{page}:{line}: {file} has no heading {anchor}"


def unknown(line: str) -> Iterator[str]:
    """Yield the commands and options in a line that there are not."""
    command = re.match(r"\s*(?:\./inv|fairshares) (.*)", line, re.DOTALL)
    if not command:
        return
    words = shlex.split(command[1].replace("…", ""), comments=True)
    names = [word for word in words[:2] if not word.startswith("--")]
    if not names or names[0].endswith("*"):
        return
    if names[0] not in namespace.task_names:
        yield f"there is no command {names[0]}"
        return
    options = {option.flag for option in namespace[names[0]].options.values()}
    options |= {f"--{name}" for name in OF_ALL}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in {*options, *OPTIONS_OF_ALL}:
            yield f"{names[0]} has no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_shows_what_there_is(page: Page) -> None:
    assert [*faults(page), *dead_links(page)] == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("    ./inv weights", "a block is of python, sh, which run"),
        ("```\n./inv weights\n```", "a block is of python, sh, which run"),
        ("<!-- not run: -->\n```sh\n./inv weights\n```", "it does not say why"),
        ("<!-- not run: slow -->\n```sh\n./inv weight\n```", "there is no command weight"),
        ("see `./inv weights --epsilom`", "weights has no option --epsilom"),
        ("```text\n./inv weights\n```", "this is a command"),
        ("[there](no-page.md)", "no-page.md is not there"),
        ("# There\n\n[there](#their)", "has no heading their"),
    ],
)
def test_what_a_page_must_not_show_is_named(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.documents.PROJECT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    page = read(tmp_path / "page.md")
    (sentence,) = [*faults(page), *dead_links(page)]
    assert sentence.startswith("page.md:") and fault in sentence


WRONG = [
    "```python\nprint(1 + 1)\n```\n```text\nthree\n```",
    "```python\nprint(1 + 1)\n```\n<!-- exact -->\n```text\n3\n```",
    "```python\nprint(one)\n```",
    "```sh\n./inv security --security ring\n```",
    "```sh\nfalse | true\n```",
    "## There is no model 'two'\n<!-- said by: ./inv weights --epsilon 1 --security one -->",
    "## There is no model 'two'\n<!-- said by: ./inv security -->",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_do_what_it_says_is_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.documents.PROJECT", tmp_path)
    (tmp_path / "page.md").write_text(text)
    (tmp_path / "run").mkdir()
    with pytest.raises((AssertionError, NameError)):
        test_a_page_does_what_it_says(read(tmp_path / "page.md"), tmp_path / "run", monkeypatch)


def test_the_site_breaks_no_interval() -> None:
    """A browser breaks a line after a dash, even before a no-break space: a joiner holds them together."""
    source = ["×640\N{NO-BREAK SPACE}(410\N{NO-BREAK SPACE}–\N{NO-BREAK SPACE}1,000) and 1 – 2"]
    runpy.run_path(str(PROJECT / "docs" / "conf.py"))["fill"](None, "paper", source)
    between = "\N{NO-BREAK SPACE}–\N{WORD JOINER}\N{NO-BREAK SPACE}"
    assert source == [f"×640\N{NO-BREAK SPACE}(410{between}1,000) and 1 – 2"]
