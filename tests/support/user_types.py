"""What mypy says of a script of a user."""

import subprocess
import sys
from pathlib import Path

USERS = """
import pandas as pd
import fairshares as fs

df = pd.DataFrame({"group": ["a", "b"], "label": [0, 1], "score": [0.1, 0.9]})
r = fs.weights(df, epsilon=1, reweighing="balanced", security="mpyc")
weight: pd.Series = r.sample_weight(df.group, df.label)
t = fs.thresholds(df, epsilon=1, thresholds=[0.5], constraint="demographic_parity", domain={"max_count": 1})
t.predictor().predict(df[["score"]], sensitive_features=df.group, random_state=0)
exact: float = r.privacy.epsilon
fs.ledger(retire="loans", budget=(3, "1e-6")).charges.empty
print(fs.__version__.upper(), fs.plan(clients=10, groups=2, epsilon=1).models)
"""
WRONG = """
import fairshares as fs

fs.weights("my.csv", epsilon=1, reweighing="balance")
fs.thresholds("my.csv", epsilon=1, thresholds="many")
fs.weights("my.csv", eps=1)
"""
KINDS = ["arg-type", "arg-type", "call-arg"]  # of the mistakes in the wrong one


def said_by_mypy(where: Path, *options: str | Path, path: str = "") -> dict[str, list[str]]:
    """Return what mypy says of a right and a wrong script, as users run it: strict, on a file of theirs."""
    said = {}
    for name, text in (("right", USERS), ("wrong", WRONG)):
        (where / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "mypy", "--strict", *options, f"{name}.py"]
        done = subprocess.run(
            command,
            cwd=where,
            env={"MYPYPATH": path, "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        said[name] = [line for line in done.stdout.splitlines() if "error" in line and "Found" not in line]
    return said
