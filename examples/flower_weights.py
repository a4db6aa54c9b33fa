"""Federated training in Flower with DP sample weights: every client weighs its own rows.

    ./inv quickstart --out weights           # or any run of `./inv weights` for these groups and labels
    python -m venv federation && federation/bin/pip install -e ".[flower]"
    federation/bin/python examples/flower_weights.py weights

Simulates clients that hold mortgage applications, trains a logistic regression by federated averaging,
once without weights and once with them, and prints what changed on held-out applicants. In a real
federation each client runs `client` on its own rows; all that it needs besides is `weights.json`,
which is differentially private, so that everybody may have it. Training itself is not private here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the project is run from its checkout

import numpy as np
import pandas as pd
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from sklearn.linear_model import SGDClassifier

from data.loanapp import load_loanapp
from fairshares import read_weights, sample_weight
from harness.errors import FairSharesError
from harness.evaluation.metrics import assess

CLIENTS = 10
ROUNDS = 20
SCALE = {  # what a feature is divided by: public knowledge of its unit, so nothing is learnt from data
    "loanprc": 1, "hrat": 100, "obrat": 100, "pubrec": 1, "cons": 6, "mortg": 4, "unem": 10, "self": 1,
}  # fmt: skip
FEATURES = list(SCALE)


def rows_of(part: str) -> pd.DataFrame:
    """Return training or test applicants: features, group and label."""
    data = load_loanapp()
    train, test = data.split()
    rows = train if part == "train" else test
    table = data.features.loc[rows, FEATURES].fillna(0.0) / pd.Series(SCALE)
    return table.assign(group=data.sensitive_feature[rows], label=data.y_true[rows])


def client(weights: pd.Series | None) -> ClientApp:
    """Return a client that trains on its own rows, weighted by group and label unless weights is None."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        mine = int(context.node_config["partition-id"])
        rows = rows_of("train").iloc[mine :: int(context.node_config["num-partitions"])]
        per_row = None if weights is None else sample_weight(weights, rows["group"], rows["label"])
        model = model_with(message.content["arrays"].to_numpy_ndarrays())
        model.partial_fit(rows[FEATURES].to_numpy(), rows["label"], [0, 1], sample_weight=per_row)
        metrics = MetricRecord({"num-examples": len(rows) if per_row is None else float(per_row.sum())})
        content = RecordDict({"arrays": ArrayRecord([model.coef_, model.intercept_]), "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


def server(result: dict[str, list[np.ndarray]]) -> ServerApp:
    """Return a server that averages the clients' models and leaves the last one in `result`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _context: Context) -> None:
        start = ArrayRecord([np.zeros((1, len(FEATURES))), np.zeros(1)])
        strategy = FedAvg(fraction_evaluate=0.0)
        found = strategy.start(grid=grid, initial_arrays=start, num_rounds=ROUNDS)
        result["arrays"] = found.arrays.to_numpy_ndarrays()

    return app


def model_with(arrays: list[np.ndarray]) -> SGDClassifier:
    """Return a logistic regression with these coefficients and intercept."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.02, random_state=0)
    model.classes_ = np.array([0, 1])
    model.coef_, model.intercept_ = arrays[0].copy(), arrays[1].copy()
    return model


def main() -> int:
    """Train twice, print what the weights changed; return an exit code."""
    if len(sys.argv) != 2:
        print("usage: flower_weights.py WEIGHTS   (the directory of a run, or its weights.json)")
        return 2
    try:
        weights = read_weights(sys.argv[1])
    except FairSharesError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    held_out, table = rows_of("test"), {}
    for name, used in (("unmitigated", None), ("with DP weights", weights)):
        result: dict[str, list[np.ndarray]] = {}
        run_simulation(server(result), client(used), num_supernodes=CLIENTS)
        predicted = model_with(result["arrays"]).predict(held_out[FEATURES].to_numpy())
        groups = sorted(held_out["group"].unique())
        table[name] = vars(
            assess(held_out["label"].to_numpy(), predicted, held_out["group"].to_numpy(), groups)
        )
    print(pd.DataFrame(table).round(3).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
