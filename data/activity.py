"""Recordings of people with a sensor, which users download; see README.md."""

import hashlib
import io
import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import pandas as pd

from fairshares.harness.errors import DataSetError

SOURCE = "https://archive.ics.uci.edu/dataset/427"
READINGS = ("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency")
ACTIVITIES = {1: "sits on the bed", 2: "sits on a chair", 3: "lies", 4: "walks"}

# Of names and contents, in the order of names.
SHA256 = "a15a733f868c6fd99b82b9d4167d584df8df7e701e33995d7915986a3972d956"

_LYING = 3
_NAME = re.compile(r"d[12]p[0-9]{2}[FM]")


@dataclass(frozen=True, eq=False)
class Recordings:
    """All readings of all recordings, a row each."""

    table: pd.DataFrame  # `READINGS`, `lying` (0 or 1), `recording` (name without the sex), `sex` (F or M)
    sha256: str  # of names and contents

    @property
    def checked(self) -> bool:
        """Whether these are the 87 recordings that README.md describes."""
        return self.sha256 == SHA256


def load_activity(path: Path) -> Recordings:
    """Load the recordings from the directory that UCI's archive was unpacked into, however deep.

    Only files named like `d1p01M` are read. Nothing is changed, dropped or imputed.

    Raises:
        DataSetError: There is no recording, a recording is there twice, or a file has another layout.
    """
    files = sorted((file for file in path.rglob("*") if _NAME.fullmatch(file.name)), key=attrgetter("name"))
    if not files:
        raise DataSetError(
            f"{path} has no recording named like d1p01M; download the archive from {SOURCE}, unpack it and "
            "name the directory."
        )
    if len({file.name[:-1] for file in files}) < len(files):
        raise DataSetError(f"{path} has a recording twice; name a directory that has each once.")
    contents = {file.name: file.read_bytes() for file in files}
    table = pd.concat([_read(name, content) for name, content in contents.items()], ignore_index=True)
    whole = b"".join(f"{name} {len(content)}\n".encode() + content for name, content in contents.items())
    return Recordings(table, hashlib.sha256(whole).hexdigest())


def _read(name: str, content: bytes) -> pd.DataFrame:
    wrong = DataSetError(
        f"{name} is not a recording: every row has {len(READINGS)} numbers and an activity from 1 to 4, "
        f"without a header; take it from {SOURCE} as it is."
    )
    try:
        table = pd.read_csv(io.BytesIO(content), header=None, dtype=float)
    except (ValueError, UnicodeDecodeError):  # pandas' own errors are ValueErrors
        raise wrong from None
    if table.shape[1] != len(READINGS) + 1 or not np.isfinite(table.to_numpy()).all():
        raise wrong
    table.columns = pd.Index([*READINGS, "activity"])
    activity = table.pop("activity")
    if not activity.isin(list(ACTIVITIES)).all():
        raise wrong
    table["lying"] = (activity == _LYING).astype("int64")
    table["recording"] = name[:-1]
    table["sex"] = name[-1]
    return table
