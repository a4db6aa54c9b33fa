"""87 recordings of healthy older people who wore a sensor: label `lying`, sensitive feature `sex`.

`load_activity` reads the user's download. README.md tells its source, columns and limits.
"""

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from harness.errors import DataSetError

SOURCE = "https://archive.ics.uci.edu/dataset/427"
READINGS = ("time", "frontal", "vertical", "lateral", "antenna", "rssi", "phase", "frequency")
ACTIVITIES = {1: "sits on the bed", 2: "sits on a chair", 3: "lies", 4: "walks"}

# Of names and contents, in the order of names.
SHA256 = "a15a733f868c6fd99b82b9d4167d584df8df7e701e33995d7915986a3972d956"

_LYING = 3
_NAME = re.compile(r"d[12]p[0-9]{2}[FM]")


@dataclass(frozen=True, eq=False)
class Recordings:
    """All readings of all recordings, one per row, in the order of the recordings' names.

    Attributes:
        table: Columns `READINGS`, `lying` (0 or 1), `recording` (name without the sex) and `sex` (F or M).
        sha256: Of names and contents.
    """

    table: pd.DataFrame
    sha256: str

    @property
    def checked(self) -> bool:
        """Whether these are the 87 recordings that README.md describes."""
        return self.sha256 == SHA256


def load_activity(path: Path) -> Recordings:
    """Load the recordings from UCI's archive, or from a directory that it was unpacked into.

    Files named like `d1p01M` are read wherever they are, also in an archive within the archive; others are
    ignored. Nothing is changed, dropped or imputed.

    Raises:
        DataSetError: There is no recording, one is there twice, or one has another layout.
    """
    parts, digest, seen = [], hashlib.sha256(), ""
    for name, content in sorted(_files(path)):
        if name[:-1] == seen:
            raise DataSetError(f"{path} has {seen} twice; name the archive or one directory that it is in.")
        parts.append(_read(name, content))
        digest.update(f"{name} {len(content)}\n".encode() + content)
        seen = name[:-1]
    if not parts:
        raise DataSetError(
            f"{path} has no recording named like d1p01M; download the archive from {SOURCE} and name it, or "
            "the directory that it was unpacked into."
        )
    return Recordings(pd.concat(parts, ignore_index=True), digest.hexdigest())


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_dir():
            for file in path.rglob("d[12]p*"):
                if _NAME.fullmatch(file.name) and file.is_file():
                    yield file.name, file.read_bytes()
        else:
            yield from _archived(path.read_bytes(), path)
    except OSError as error:
        raise DataSetError(f"Cannot read {path}: {error.strerror}.") from None


def _archived(content: bytes, path: Path, *, inside: bool = False) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for entry in archive.namelist():
                name = PurePosixPath(entry).name
                if _NAME.fullmatch(name):
                    yield name, archive.read(entry)
                elif name.endswith(".zip") and not inside:
                    yield from _archived(archive.read(entry), path, inside=True)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError):  # damaged; encrypted; of another kind
        raise DataSetError(
            f"{path} is no zip archive that can be read; download it again from {SOURCE}."
        ) from None


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
    table["recording"], table["sex"] = name[:-1], name[-1]
    return table
