"""The records of a federation's clients: mortgage applications, ratings of films, or made-up ones."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.studies.training.people import People, movielens
from fairshares.data.loanapp import GROUPS, load_loanapp

LOANAPP = "loanapp"
MADE_UP = "made-up"
LABELS = ("0", "1")
# A feature's declared range: nothing is learned from data.
RANGES = {
    "loanprc": (0, 1.6), "hrat": (0, 50), "obrat": (0, 66), "pubrec": (0, 1), "cons": (0, 6),
    "mortg": (0, 4), "unem": (0, 11), "self": (0, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Federation:
    """Which records a run is about.

    Attributes:
        data: `loanapp`, `made-up`, or the directory of MovieLens.
        clients: How many clients there are.
        seed: Of the draw of clients and of the split.
    """

    data: str
    clients: int
    seed: int

    def split(self) -> tuple[People, People]:
        """Return the clients' records for training, and those for tests."""
        return _split(self)

    def rows_of(self, client: int) -> People:
        """Return the training records of one client, from 0 on, who is number 0 in them."""
        training, _ = self.split()
        return training.of_clients(np.array([client]))


@lru_cache(maxsize=2)
def _split(federation: Federation) -> tuple[People, People]:
    rng = np.random.default_rng(federation.seed)
    if federation.data == LOANAPP:
        return applications(federation.clients).split(rng)
    if federation.data == MADE_UP:
        return made_up(federation.clients).split(rng)
    return _ratings(federation.data).drawn(federation.clients, rng).split(rng)


@lru_cache(maxsize=1)
def _ratings(directory: str) -> People:
    return movielens(Path(directory))


def applications(clients: int) -> People:
    """Return the quickstart's mortgage applications; the applicants are dealt to made-up lenders."""
    data = load_loanapp()
    low, high = np.array(list(RANGES.values()), dtype=float).T
    scaled = 2 * (data.features[list(RANGES)].to_numpy(dtype=float) - low) / (high - low) - 1
    return People(
        "mortgage applications",
        np.nan_to_num(np.clip(scaled, -1, 1)),
        data.y_true,
        np.searchsorted(GROUPS, data.sensitive_feature),
        np.arange(len(data.y_true)) % clients,
        GROUPS,
    )


def made_up(clients: int) -> People:
    """Return ratings of MovieLens' shape: 20 to 300 of a client, 30 genres and traits, two groups."""
    rng = np.random.default_rng(0)
    sizes = np.minimum(20 + rng.geometric(0.02, clients), 300)
    client = np.repeat(np.arange(clients), sizes)
    woman = np.arange(clients) % 7 < 2
    features = np.where(rng.random((len(client), 30)) < 0.15, 1.0, 0.0)
    features[:, 0] = np.where(woman[client], 1.0, -1.0)
    likes = np.append(0.3, rng.normal(0, 0.6, 29))
    label = rng.random(len(client)) < expit(features @ likes)
    return People(
        "made-up ratings",
        features,
        label.astype(np.int64),
        woman[client].astype(np.int64),
        client,
        ("men", "women"),
    )


def as_records(rows: People, client: int) -> pd.DataFrame:
    """Return a client's rows with the columns that it shares."""
    return pd.DataFrame(
        {
            "client_id": f"client-{client}",
            "group": np.array(rows.groups)[rows.group],
            "label": np.array(LABELS)[rows.label],
        }
    )
