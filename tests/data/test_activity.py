"""The loader of the activity recordings: the archive's layout, and files that are not of it."""

import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest

from data.activity import READINGS, load_activity
from harness.errors import DataSetError

ROWS = {
    "S1_Dataset/d1p01M": "0,0.3,1.0,-0.08,1,-63.5,2.4,924.25,1\n0.5,0.3,1.0,-0.08,1,-63,4.7,921.75,3\n",
    "S2_Dataset/d2p01F": "0,1.1,0.1,-0.01,3,-58,0.1,922.75,4\n",
}
OTHERS = {"S1_Dataset/README.txt": "Characteristics", "__MACOSX/S1_Dataset/._d1p01M": "\x00"}


def archive(files: Mapping[str, str | bytes], path: Path | BytesIO) -> None:
    with zipfile.ZipFile(path, "w") as written:
        for name, text in files.items():
            written.writestr(name, text)


def unpacked(files: dict[str, str], directory: Path) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize("archived", [False, True])
def test_recordings_are_read_from_a_directory_or_an_archive_in_an_archive(
    archived: bool, tmp_path: Path
) -> None:
    path = tmp_path / "download.zip" if archived else unpacked({**ROWS, **OTHERS}, tmp_path)
    if archived:
        inner = BytesIO()
        archive({f"Datasets_Healthy_Older_People/{name}": text for name, text in ROWS.items()}, inner)
        archive({"Datasets_Healthy_Older_People.zip": inner.getvalue(), **OTHERS}, path)
    recordings = load_activity(path)
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


@pytest.mark.parametrize("content", [b"PK", b"", None], ids=["damaged", "empty", "absent"])
def test_what_is_no_archive_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "download.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataSetError, match=r"is no zip archive|Cannot read"):
        load_activity(path)
