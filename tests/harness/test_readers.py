"""Every reader of JSON and TOML refuses what it does not know, in one sentence without a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.clients.invitations import read_invitation
from harness.errors import HostsFileError, RecordDomainError, ShareError
from harness.hosts.inventory import read_hosts
from harness.inputs.aggregation import policy_from_json, read_header, read_lists
from harness.inputs.record_schema import read_domain
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
KIND = {"form": "slots", "arithmetic": "xor64", "parties": 1, "domain": "x"}
LIST = {
    "schema": 1,
    "party": 0,
    "sound": [{**KIND, "uploads": ["a:1:0"]}],
    "unsound": {"b": "for another party"},
}
HEADER = {
    "schema": 1,
    "kind": "batch",
    "batch": "0a",
    "form": "split",
    "arithmetic": "ring64",
    "party": 0,
    "parties": 2,
    "clients": 1,
    "content": "seed",
    "record_domain": DOMAIN,
    "records": 0,
    "batches": 1,
}


@pytest.mark.parametrize("kind", DOMAINS)
def test_domains(kind: str, tmp_path: Path) -> None:
    good = DOMAINS[kind]
    wide = {"pairs": ("cap",), "scores": ("thresholds",)}.get(kind, ())
    check_file(read_domain, RecordDomainError, tmp_path / "x", good, optional=(*MAY_LACK, kind), either=wide)


def test_invitations(tmp_path: Path) -> None:
    path = tmp_path / "client-0.json"
    check_file(read_invitation, ShareError, path, INVITATION, either=("epsilon", "terms"))
    wrong: tuple[dict[str, Any], ...] = (
        {"client": -1},
        {"servers": []},
        {"servers": [{**SERVER, "port": 1 << 16}]},
    )

    def read(changes: dict[str, Any]) -> None:
        path.write_text(json.dumps({**INVITATION, **changes}))
        read_invitation(path)

    check_refuses(read, ShareError, ((str(each), each) for each in wrong))


def test_policies() -> None:
    good, free = {"domain": DOMAIN, "clients": 3}, {"domain": None, "clients": 3}
    assert policy_from_json(good).clients == policy_from_json(free).clients == 3
    cases = [*spoilt(good, optional=("max_count",)), ("no clients", {**free, "clients": 0})]
    check_refuses(policy_from_json, RecordDomainError, (case for case in cases if case[1] != free))


def test_lists_of_uploads(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        read_lists(path.parent)

    path = tmp_path / "party-0.uploads"
    path.touch()
    check_file(read, ShareError, path, LIST, either=("unsound",), there=False)


def test_headers(tmp_path: Path) -> None:
    may_lack = ("schema", "records", "batches", "max_count")
    check_file(read_header, ShareError, tmp_path / "0a.share", HEADER, optional=may_lack)


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
