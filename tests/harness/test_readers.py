"""Every reader of JSON and TOML refuses what it does not know, in one sentence without a secret."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.errors import (
    FairSharesError,
    HostsFileError,
    RecordDomainError,
    ResultFileError,
    ShareError,
    ThresholdRuleError,
)
from fairshares.harness.forecast.unit_costs import read_units
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.inputs.record_schema import read_domain
from fairshares.harness.online.client import read_invitation
from fairshares.harness.pipeline.sources import read_terms
from fairshares.harness.postprocessing.thresholds.rules import rule_from_json
from fairshares.harness.reweighing.sample_weight import read_weights
from fairshares.harness.uploads.aggregates import read_header
from fairshares.harness.uploads.lists import UploadReport, read_lists, write_uploads
from fairshares.harness.uploads.reasons import OTHER_TASK
from fairshares.harness.uploads.task import task_from_bytes
from tests.support.envelopes import VECTORS, made_task
from tests.support.hostile import SECRET, check_file, check_refuses, spoilt

DOMAIN: dict[str, Any] = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 10}
MAY_LACK = ("max_count", "thresholds", "predictions", "sizes", "cap", "steps")
DOMAINS: dict[str, dict[str, Any]] = {
    "pairs": {**DOMAIN, "cap": 2},
    "scores": {**DOMAIN, "thresholds": [0.5, 0.75]},
    "predictions": {**DOMAIN, "predictions": True},
    "sizes": {**DOMAIN, "sizes": True},
    "values": {"groups": ["a", "b"], "values": {"low": 0.5, "high": 1.5, "steps": 10}},
}
SERVER = {"host": "h", "port": 9000, "certificate": SECRET}
INVITATION = {
    "schema": 1,
    "client": 0,
    "certificate": SECRET,
    "key": SECRET,
    "servers": [SERVER, SERVER],
    "terms": {"epsilon": "1"},
}
TASK = task_from_bytes(json.loads(VECTORS.read_text())[0]["task"].encode(), "the vector")
IDENTITIES = b"ab" * 32 + b"\n" + b"cd" * 32 + b"\n"  # what follows a list's first line
HEADER = {
    "schema": 3,
    "party": 0,
    "uploads": 1,
    "fingerprint": "0a",
    "policy": TASK.policy,
    "task": json.loads(TASK.text),
    "excluded": {"of another task": 1},
}


def test_invitations(tmp_path: Path) -> None:
    path = tmp_path / "client-0.json"
    wrong: tuple[dict[str, Any], ...] = (
        {"client": -1},
        {"servers": []},
        {"servers": [{**SERVER, "port": 1 << 16}]},
    )

    def read(changes: dict[str, Any]) -> None:
        path.write_text(json.dumps({**INVITATION, **changes}))
        read_invitation(path)

    check_refuses(read, ShareError, ((str(change), change) for change in wrong))


def test_lists_of_uploads(tmp_path: Path) -> None:
    task = made_task(tmp_path)

    def read(path: Path) -> None:
        with suppress(OSError), path.open("ab") as file:
            file.write(IDENTITIES)
        read_lists(path.parent, task)

    for party in range(3):
        listed = UploadReport(party, task.name, frozenset({"ab" * 32}), {OTHER_TASK: frozenset({"cd" * 32})})
        key = task.signer(party, tmp_path / f"keys-{party}")
        write_uploads(listed, tmp_path / f"party-{party}.uploads", key)
    own = tmp_path / "party-0.uploads"
    head = json.loads(own.read_bytes().splitlines()[0])
    check_file(read, ShareError, own, head, either=("unsound",), there=False)


FIGURES = {"sent_bytes": {"run": 0.5}, "mpc_s": {"run": 0.5}}
UNIT_COSTS = {
    "schema": 1,
    "measured": {},
    "models": {"mpyc": {**FIGURES, "network": {"round_trips_per_round": 0.5, "link_share": 0.5}}},
}


# Of a file: its name, what reads it, how that refuses it, and which of its fields may be what.
FILES: dict[
    str, tuple[str, Callable[[Path], object], type[FairSharesError], dict[str, Any], dict[str, Any]]
] = {
    **{
        kind: (
            "x",
            read_domain,
            RecordDomainError,
            good,
            {
                "optional": (*MAY_LACK, kind),
                "either": {"pairs": ("cap",), "scores": ("thresholds",)}.get(kind, ()),
            },
        )
        for kind, good in DOMAINS.items()
    },
    "an aggregate": (
        "0.aggregate",
        read_header,
        FairSharesError,
        HEADER,
        {"either": ("excluded",), "optional": ("schema", "max_count", "of another task")},
    ),
    "unit costs": (
        "units.json",
        read_units,
        ResultFileError,
        UNIT_COSTS,
        {"either": ("", "measured", "models", "network"), "optional": ("run",)},
    ),
    "an invitation": (
        "client-0.json",
        read_invitation,
        ShareError,
        INVITATION,
        {"either": ("epsilon", "terms")},
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_files(kind: str, tmp_path: Path) -> None:
    name, read, error, good, may_be = FILES[kind]
    check_file(read, error, tmp_path / name, good, **may_be)


TERMS = {
    "request": {
        "task": "weights",
        "security": "ring",
        "input_form": "product",
        "input_path": "clients",
        "epsilon": "1",
        "delta": "1/1024",
        "neighboring_relation": "add_or_remove_one",
        "privacy_unit": "record",
        "noise": "joint",
        "noise_family": "by-epsilon",
        "reweighing": "balanced",
    },
    "domain": DOMAIN,
    "attempts": 0,
}


def test_terms() -> None:
    def read(terms: dict[str, Any]) -> None:
        read_terms(terms, "x.json")

    read(TERMS)
    check_refuses(read, (ShareError, RecordDomainError), spoilt(TERMS, optional=("max_count", "input_form")))


WEIGHTS = {
    "schema": 1,
    "groups": ["a", "b"],
    "labels": ["0", "1"],
    "weights": [[0.5, 1.5], [2.5, 3.5]],
    "more": 1,
}


def test_weights(tmp_path: Path) -> None:
    check_file(
        read_weights, ResultFileError, tmp_path / "x", WEIGHTS, either=("", "more"), optional=("more",)
    )
    for wrong in (
        {"groups": ["a", "a"]},
        {"weights": [[0.5, 1.5, 2.5], [3.5]]},
        {"weights": [[0.5, 1.5], [2.5, 0.0]]},
    ):
        (tmp_path / "x").write_text(json.dumps({**WEIGHTS, **wrong}))
        with pytest.raises(ResultFileError, match="a positive weight for each"):
            read_weights(tmp_path / "x")


RULES: tuple[dict[str, Any], ...] = (
    {"threshold": 0.5},
    {"threshold": 0.5, "threshold_alt": 0.75, "probability_alt": 0.25},
    {"thresholds": [0.5, 0.75, 0.9], "probabilities": [0.25, 0.25, 0.5]},
)


@pytest.mark.parametrize("good", RULES, ids=str)
def test_rules(good: dict[str, Any]) -> None:
    rule_from_json(good, "x")
    check_refuses(lambda rule: rule_from_json(rule, "x"), ThresholdRuleError, spoilt(good))


TOML = 'host = [{party = 0, address = "h", directory = "/d", project = "/p", port = 9000, ssh_user = "u"}]'


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "host = 1",
            "host = [1]",
            "host = [{}]",
            "host = [",
            "\xff",
            f"{TOML}\nmore = 1",
            f"{TOML}\n{TOML}",
        ),
        *(TOML.replace("9000", other) for other in ("true", '"9000"', "9000.0", "0", "70000")),
        *(TOML.replace('"u"', other) for other in ("1", "true", "[]", '"u", more = 1')),
        TOML.replace("port = 9000, ", ""),
        "a = " + "[" * 10_000,
        TOML + " " * (1 << 26),
    ],
)
def test_hosts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(TOML)
    assert read_hosts(path)[0].ssh_user == "u"

    def read(text: str) -> None:
        path.write_text(text, encoding="latin-1")
        read_hosts(path)

    check_refuses(read, HostsFileError, iter([("it", text)]))
