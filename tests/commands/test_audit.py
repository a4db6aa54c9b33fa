"""`./inv audit`: rows, picture, table; options that make no sense end in one sentence."""

import json
from pathlib import Path

import pytest

from tests.support.command import call, files_below, succeed

PNG = b"\x89PNG\r\n\x1a\n"


def test_reference_set_as_json(tmp_path: Path) -> None:
    """Standard output is JSON alone, without Python's Infinity."""
    printed = succeed("audit", "--json", "--plot", "--out", "found", cwd=tmp_path)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    rows = json.loads(printed, parse_constant=refuse)["rows"]
    assert {tuple(row) for row in rows} == {("subject", "parameters", "value")}
    values = {row["subject"]: row["value"] for row in rows}
    assert values["pi_lap.published.raw.delta"] == pytest.approx(0.817, abs=1e-3)
    assert values["pi_lap.published.rounded.delta"] == pytest.approx(1.19e-4, rel=1e-2)
    assert values["pi_roc.published.epsilon"] == 1001
    assert files_below(tmp_path) == {
        "found",
        *(f"found/{name}" for name in ("audit.json", "report.html", "delta.png")),
    }
    assert (tmp_path / "found" / "audit.json").read_text(encoding="utf-8") == printed
    assert (tmp_path / "found" / "delta.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--sampler default --epsilon 1/3 --delta 2^-60", "1.45e-19"),
        ("--sampler default --sensitivity 3", "default"),
        ("--release confusion --labels 3", "confusion"),
        ("--release thresholds --thresholds 101", "thresholds"),
        ("--sampler published --epsilon 2", "published, rounded (MP-SPDZ)"),
        ("--release weights --groups 3 --labels 2 --neighboring-relation replace_one", "replace_one"),
        ("--release weights --horizon 40", "weights, 40 epochs"),
        *(
            (f"--release thresholds --noise {noise} --security mpyc", "holds, by this second derivation")
            for noise in ("distributed", "distributed-gaussian")
        ),
    ],
)
def test_one_thing(options: str, shown: str, tmp_path: Path) -> None:
    said = succeed("audit", *options.split(), "--out", "found", cwd=tmp_path)
    assert shown in said and files_below(tmp_path) == {"found", "found/audit.json"}


def test_a_guarantee_that_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures are written all the same; the exit code tells."""
    monkeypatch.setattr("protocols.accounting.calibration.nodes_changed", lambda *_, **__: 1)
    options = "--release weights --neighboring-relation replace_one --out found"
    done = call("audit", *options.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert "A guarantee does not hold. weights at ε = 1: a record moves 2 values" in done.stderr
    assert "holds, by this second derivation" not in done.stdout
    assert (tmp_path / "found" / "audit.json").exists()
