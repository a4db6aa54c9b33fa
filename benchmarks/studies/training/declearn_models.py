"""Models by DecLearn's algorithms for fairness, with secure aggregation, in DecLearn's environment."""

import asyncio
import json
import logging
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from declearn.communication import NetworkClientConfig, NetworkServerConfig
from declearn.fairness.core import FairnessInMemoryDataset
from declearn.fairness.fairbatch import FairbatchControllerServer
from declearn.fairness.fairfed import FairfedControllerServer
from declearn.fairness.fairgrad import FairgradControllerServer
from declearn.main import FederatedClient, FederatedServer
from declearn.main.config import FLRunConfig
from declearn.model.sklearn import NumpyVector, SklearnSGDModel
from declearn.secagg.utils import IdentityKeys
from scipy.special import expit

SILOS = 5
ROUNDS = 20
EPOCHS = 4
BATCH = 64
FAIRNESS = "equalized_odds"
# This is as fast as averages of updates at 0.5: all but FairFed's updates are summed over silos.
RATES = {"Fed-FairGrad": 5.0, "Fed-FairGrad, mended": 2.5, "FedFB": 0.5, "FairFed": 0.5}
# Chosen on `wagepan`.
ETA = 0.1
ALPHA = 0.003
BETA = 1000.0
CONTROLLERS = {
    "FedFB": partial(FairbatchControllerServer, FAIRNESS, alpha=ALPHA, fedfb=True),
    "FairFed": partial(FairfedControllerServer, FAIRNESS, beta=BETA, strict=True),
    "Fed-FairGrad": partial(FairgradControllerServer, FAIRNESS, eta=ETA),
    "Fed-FairGrad, mended": partial(FairgradControllerServer, FAIRNESS, eta=ETA),
}


class Mended(FairnessInMemoryDataset):  # type: ignore[misc]  # has no type information
    """Records whose group's weight counts once.

    DecLearn multiplies it by the group's local size. Its loss then has the squares of groups' sizes, and on
    `wagepan` the model selects nobody.
    """

    typekey = "mended"

    def set_sensitive_group_weights(self, weights: Any, adjust_by_counts: bool = False) -> None:  # noqa: ARG002
        """Give each record its group's weight, times the silo's size."""
        whole = {group: len(self.data) * weight for group, weight in weights.items()}
        super().set_sensitive_group_weights(whole)


class Logistic(SklearnSGDModel):  # type: ignore[misc]  # has no type information
    """DecLearn's logistic regression, with a batch's gradients at once."""

    typekey = "logistic"

    def compute_batch_gradients(self, batch: Any, **_: Any) -> NumpyVector:
        """Return the mean of the records' weighed gradients."""
        inputs, label, weight = self._unpack_batch(batch)
        parameters = self.get_weights().coefs
        off = expit(inputs @ parameters["coef"][0] + parameters["intercept"]) - label
        if weight is not None:
            off = off * weight
        off = off / len(off)
        return NumpyVector({"intercept": off.sum(keepdims=True), "coef": (off @ inputs)[np.newaxis]})


def silos_of(data: Any, algorithm: str, seed: int) -> list[FairnessInMemoryDataset]:
    """Return each silo's records, of people drawn at random."""
    kind = FairnessInMemoryDataset
    if algorithm == "Fed-FairGrad, mended":
        kind = Mended
    order = np.random.default_rng(seed).permutation(data["client"].max() + 1)
    silo_of_record = order[data["client"]] % SILOS
    silos = []
    for number in range(SILOS):
        records = silo_of_record == number
        silos.append(
            kind(
                data=data["features"][records],
                s_attr=data["group"][records][:, np.newaxis],
                target=data["label"][records],
                expose_classes=True,
                seed=seed,
            )
        )
    return silos


async def trained(silos: Sequence[FairnessInMemoryDataset], algorithm: str, port: int) -> list[float]:
    """Train by masked sums, and return coefficients, the intercept last."""
    signing = [Ed25519PrivateKey.generate() for _ in silos]
    trusted = [key.public_key() for key in signing]
    keys = [IdentityKeys(key, trusted=list(trusted)) for key in signing]
    model = Logistic.from_parameters(kind="classifier", loss="log_loss", penalty=None)
    share = 1.0 / len(silos)
    if algorithm == "FairFed":
        share = 1.0
    optim = {"client_opt": RATES[algorithm], "server_opt": share, "fairness": CONTROLLERS[algorithm]()}
    secagg = {"secagg_type": "masking"}
    network = NetworkServerConfig.from_params(
        protocol="websockets", host="127.0.0.1", port=port, heartbeat=0.01
    )
    server = FederatedServer(model, network, optim, secagg=secagg)
    config = FLRunConfig.from_params(
        rounds=ROUNDS,
        register={"min_clients": len(silos), "max_clients": len(silos), "timeout": 600},
        training={"n_epoch": EPOCHS, "batch_size": BATCH},
        evaluate={"frequency": ROUNDS, "batch_size": 4096},
        fairness={"batch_size": 4096},
    )
    clients = [
        FederatedClient(
            NetworkClientConfig.from_params(
                protocol="websockets", server_uri=f"ws://127.0.0.1:{port}", name=f"silo-{number}"
            ),
            train_data=silo,
            verbose=False,
            secagg={**secagg, "id_keys": keys[number]},
        ).async_run()
        for number, silo in enumerate(silos)
    ]
    await asyncio.gather(server.async_run(config), *clients)
    parameters = server.model.get_weights().coefs
    return [*parameters["coef"][0].tolist(), float(parameters["intercept"][0])]


async def by_all(data: Any, seed: int) -> dict[str, list[float]]:
    """Return each algorithm's model. They train at the same time, since they mostly wait."""
    trainings = []
    for number, algorithm in enumerate(RATES):
        trainings.append(trained(silos_of(data, algorithm, seed), algorithm, 8765 + number))
    models = await asyncio.gather(*trainings)
    return dict(zip(RATES, models, strict=True))


def main(directory: Path) -> None:
    """Train the models of each file of records that has none yet, and write them and the versions."""
    about = {
        "declearn": version("declearn"),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
        "silos": SILOS,
        "rounds": ROUNDS,
        "epochs": EPOCHS,
        "batch": BATCH,
        "rates": RATES,
        "eta": ETA,
        "alpha": ALPHA,
        "beta": BETA,
    }
    (directory / "declearn.json").write_text(json.dumps(about))
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for file in sorted(directory.glob("*.npz")):
        out = file.with_suffix(".json")
        if out.exists():
            continue
        _, _, seed = file.stem.rpartition("-")
        models = asyncio.run(by_all(np.load(file), int(seed)))
        out.write_text(json.dumps(models))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
