"""Performance values: what is read, what is shared, and gaps by hand."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.errors import RecordDomainError, RecordsError
from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.record_schema import (
    MAX_STEPS,
    RecordDomain,
    RecordKind,
    Rounding,
    ValueGrid,
    domain_from_json,
)
from fairshares.harness.inputs.records import read_records
from fairshares.harness.releases.gap.statistic import GapStatistic, clients_for, gaps
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import NeighboringRelation, NoisePlan
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.noise.added import simulated_noise
from fairshares.protocols.spec import VALUED_SPLIT
from tests.support.requests import request_of
from tests.support.stated import only_file

GRID = ValueGrid(0.0, 1.0, 10)
DOMAIN = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=GRID)


def settings(epsilon: int = 1, relation: NeighboringRelation | None = None) -> Request:
    return request_of(MODELS["ring"], VALUED_SPLIT, Fraction(epsilon), Fraction(1, 2**40), relation=relation)


def plan(domain: RecordDomain = DOMAIN) -> NoisePlan:
    return GapStatistic().prepare(settings(), domain).plan


def opened(*groups: tuple[float, float]) -> np.ndarray:
    """Return what is revealed of groups with these sums and sizes, in steps."""
    return np.array([[size + total, size - total] for total, size in groups], dtype=np.float64).ravel()


def written(path: Path, *rows: str) -> Path:
    path.write_text("client_id,group,value\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_values_are_read_and_rounded_to_the_grid(tmp_path: Path) -> None:
    """Also fractions of counts: 17/20 is 0.85, which is 7 of 10 steps above the center."""
    path = written(tmp_path / "v.csv", "k,a,0", "l,b,17/20", "m,a,1.0", "n,b,0.524", "o,a,3/3")
    records = read_records(path, DOMAIN, kind=RecordKind.VALUE)
    assert records.detail is not None and records.detail.tolist() == [-10, 7, 10, 0, 10]
    assert count_columns(DOMAIN, "split") == 4
    shared = columns_of(records, VALUED_SPLIT)
    assert shared.tolist() == [[0, 0, 20, 0, 20], [20, 0, 0, 0, 0], [0, 17, 0, 10, 0], [0, 3, 0, 10, 0]]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("l,b,1.01", r"row 3: value '1.01' is not a number or a fraction from 0 to 1, the declared range"),
        ("l,b,-0.1", "row 3: value '-0.1'"),
        ("l,b,0/0", "row 3: value '0/0'"),
        ("l,b,3/2", "row 3: value '3/2'"),
        ("l,b,1/2/1", "row 3: value '1/2/1'"),
        ("l,b,much", "row 3: value 'much'"),
        ("l,b,", "row 3: column value is empty"),
        ("l,c,0.5", r"row 3: group 'c' is not declared \(declared: a, b\)"),
        ("k,b,0.5", "Client 'k' has 2 values; a client has one"),
    ],
)
def test_a_client_s_mistake_is_named(row: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=said):
        read_records(written(tmp_path / "v.csv", "k,a,0", row), DOMAIN, kind=RecordKind.VALUE)


def test_domains_of_values_are_written_and_read() -> None:
    assert domain_from_json(DOMAIN.to_json(), "it") == DOMAIN
    domain = domain_from_json({"groups": ["b", "a"], "values": {"low": -1, "high": 2}}, "it")
    assert domain.groups == ("a", "b") and domain.values == ValueGrid(-1.0, 2.0)
    others: list[JsonValue] = [
        {"low": 0},
        [0, 1],
        {"low": 0, "high": "1"},
        {"low": 0, "high": 1, "steps": 2.0},
    ]
    for values in others:
        with pytest.raises(RecordDomainError, match=r"it is not a domain: .* at `values"):
            domain_from_json({"groups": ["a", "b"], "values": values}, "it")
    for wrong in ((1.0, 1.0, 5), (0.0, math.inf, 5)):
        with pytest.raises(RecordDomainError, match="two finite ends"):
            ValueGrid(*wrong)
    for steps in (0, MAX_STEPS + 1):
        with pytest.raises(RecordDomainError, match="steps on each side"):
            ValueGrid(0.0, 1.0, steps)


def test_whom_the_noise_protects() -> None:
    """By default a client's group and value, which move all sums by 4 steps together."""
    chosen = plan()
    assert chosen.relation is NeighboringRelation.REPLACE_ONE
    assert (chosen.nodes, chosen.changed, chosen.largest) == (4, 40, 20)
    other = GapStatistic().prepare(settings(relation=NeighboringRelation.ADD_OR_REMOVE_ONE), DOMAIN).plan
    assert (other.changed, other.largest) == (20, 20)


def test_gaps_by_hand() -> None:
    """Sums 1000 and -300 steps over sizes of 4000 and 1000 steps: means 1/4 and -3/10 of the radius."""
    chosen = plan()
    result = gaps(opened((1000, 4000), (-300, 1000)), DOMAIN, chosen)
    assert result.sizes.tolist() == [400, 100] and result.near_zero == (False, False)
    assert [mean.estimate for mean in result.means] == pytest.approx([0.625, 0.35])
    (gap,) = result.gaps.values()
    assert gap.estimate == pytest.approx(0.275) and gap.says_something
    noise = simulated_noise(chosen.coins, np.random.default_rng(2), (2, 10**5))
    for end, half_a_step in ((result.means[0].low, 0.05), (result.means[0].high, -0.05)):
        m = 2 * end - 1 + half_a_step
        off = abs((1 - m) * 5000 - (1 + m) * 3000)
        assert 0.04 < (abs((1 - m) * noise[0] - (1 + m) * noise[1]) > off).mean() < 0.052


def test_groups_that_the_noise_hides() -> None:
    result = gaps(opened((100, 20_000), (3, -40)), DOMAIN, plan())
    assert result.near_zero == (False, True)
    assert math.isnan(result.means[1].estimate) and not result.means[1].says_something
    written = only_file(result)
    assert written["means"]["b"] == {"estimate": None, "interval": [0.0, 1.0], "says_something": False}
    assert written["gaps"] == [
        {"groups": ["a", "b"], "estimate": None, "interval": [-1.0, 1.0], "says_something": False}
    ]


@pytest.mark.parametrize("mean", [-10, 0, 4, 10])
def test_so_many_clients_would_do(mean: int) -> None:
    """An interval is within a tenth of the range of its estimate; of groups a tenth smaller it may not be."""
    domain = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, 1000))
    chosen = plan(domain)
    n = gaps(opened((0, 1e6), (0, 1e6)), domain, chosen).useful
    assert n == clients_for(0.2, chosen.noise, 1000, Rounding.NEAREST)

    def width(n: int) -> float:
        (gap,) = gaps(opened((100 * mean * n, 1000 * n), (-1000 * n, 1000 * n)), domain, chosen).gaps.values()
        return max(gap.high - gap.estimate, gap.estimate - gap.low)

    assert width(n) <= 0.1 and (mean < 10 or width(int(0.9 * n)) > 0.1)
