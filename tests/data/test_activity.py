"""The loader of the activity recordings: the layout of the directory, and files that are not of it."""

from pathlib import Path

import pytest

from fairshares.data.activity import READINGS, load_activity
from fairshares.harness.errors import DataSetError

ROWS = {
    "S1_Dataset/d1p01M": "0,0.3,1.0,-0.08,1,-63.5,2.4,924.25,1\n0.5,0.3,1.0,-0.08,1,-63,4.7,921.75,3\n",
    "S2_Dataset/d2p01F": "0,1.1,0.1,-0.01,3,-58,0.1,922.75,4\n",
}
OTHERS = {"S1_Dataset/README.txt": "Characteristics", "__MACOSX/S1_Dataset/._d1p01M": "\x00"}


def unpacked(files: dict[str, str], directory: Path) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


def test_recordings_are_read_from_a_directory(tmp_path: Path) -> None:
    recordings = load_activity(unpacked({**ROWS, **OTHERS}, tmp_path))
    assert list(recordings.table.columns) == [*READINGS, "lying", "recording", "sex"]
    assert recordings.table["lying"].tolist() == [0, 1, 0]
    assert recordings.table["recording"].tolist() == ["d1p01", "d1p01", "d2p01"]
    assert recordings.table["sex"].tolist() == ["M", "M", "F"]
    assert recordings.table["rssi"].tolist() == [-63.5, -63, -58]
    assert not recordings.checked
    assert recordings.sha256 == load_activity(unpacked(ROWS, tmp_path / "again")).sha256


@pytest.mark.parametrize(
    "text",
    [
        "",
        "time,frontal,vertical,lateral,antenna,rssi,phase,frequency,activity\n",
        "0,0.3,1.0,-0.08,1,-63.5,2.4,924.25\n",
        "0,0.3,1.0,-0.08,1,-63.5,2.4,924.25,5\n",
        "0,0.3,,-0.08,1,-63.5,2.4,924.25,1\n",
        "0,0.3,inf,-0.08,1,-63.5,2.4,924.25,1\n",
        "\x00\xff",
    ],
    ids=["empty", "header", "too few columns", "unknown activity", "missing", "infinite", "binary"],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match="d1p02F is not a recording"):
        load_activity(unpacked({**ROWS, "S1_Dataset/d1p02F": text}, tmp_path))


def test_a_recording_has_to_be_there_and_once(tmp_path: Path) -> None:
    for name in ("empty", "absent.zip"):
        with pytest.raises(DataSetError, match="has no recording"):
            load_activity(unpacked(OTHERS, tmp_path / "empty") / name)
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(DataSetError, match="unpack it"):
        load_activity(tmp_path / "a.zip")
    twice = {**ROWS, "copy/d1p01M": ROWS["S1_Dataset/d1p01M"]}
    with pytest.raises(DataSetError, match="a recording twice"):
        load_activity(unpacked(twice, tmp_path / "twice"))
