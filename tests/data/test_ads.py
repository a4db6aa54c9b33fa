"""The loader of ADS16: a made-up directory of its layout, and files that are not of it."""

from pathlib import Path

import pytest

from benchmarks.studies.training.people import ads
from fairshares.data.ads import load_ads
from fairshares.harness.errors import DataSetError

NAMES = ";".join(f'"Category {number}"' for number in range(20))
INF = (
    '"Name";"Last Name";"Age";"Gender";"Home country";"Home town";"Cap/Zip-Code";"Type of Job";'
    '"Weekly working hours";"Income";"Timepass";"Fave Sports";"Countries visited";"Paypal"\n'
)
PREF = (
    '"Most visited websites";"Most listened musics";"Most watched movies";"Most watched tv programmes";'
    '"Most read books"\n'
)


def user(stars: str, age: str, gender: str, sports: str) -> dict[str, str]:
    """Return a user's files by the end of their names. Args: stars: of the first category; others have 1."""
    cells = [stars, *[",".join("1" * 15)] * 19]
    return {
        "RT": ";".join(f"Cat{i}" for i in range(20)) + f"\n{NAMES}\n" + ";".join(f'"{c}"' for c in cells),
        "INF": f'{INF}"";"";"{age}";"{gender}";"Italy";"";"37134";"";"";"1";"Dance";"{sports}";"";""\n',
        "PREF": f'{PREF}"News";"Jazz, Rock";"Drama";"";"Crime"\n\n',
    }


USERS = {
    "U0001": user("5,4,3,2,1,0" + 9 * ",5", "30", "F", "Individual sports (Tennis, Archery, ...), Skating"),
    "U0061": user(",".join("3" * 15), "", "M", "Skating"),
}


def written(directory: Path, changes: dict[str, str] | None = None) -> Path:
    """Write both users, each into a part of its own, with some files changed, or left out where empty."""
    for part, (name, files) in enumerate(USERS.items(), 1):
        below = directory / f"ADS16_Benchmark_part{part}" / "Corpus" / "Corpus" / name
        below.mkdir(parents=True)
        for kind, text in files.items():
            text = (changes or {}).get(f"{name}-{kind}", text)
            if text:
                (below / f"{name}-{kind}.csv").write_text(text, encoding="utf-8-sig")
    return directory


def test_ratings_and_features_are_read(tmp_path: Path) -> None:
    ratings = load_ads(written(tmp_path))
    assert (ratings.name, ratings.whole) == ("ADS16", False) and len(ratings.table) == 2 * 300
    assert ratings.table["liked"].tolist() == [1, 1, 0, 0, 0, 0, *[1] * 9, *[0] * 285, *[0] * 300]
    assert ratings.table["gender"].tolist() == ["F"] * 300 + ["M"] * 300
    features = ratings.features
    assert features.to_numpy().min() >= -1 and features.to_numpy().max() <= 1
    assert features.filter(like="ad_").sum(axis=1).unique().tolist() == [1]
    assert features["ad_Category 1"].to_numpy().nonzero()[0].tolist() == [*range(15, 30), *range(315, 330)]
    of_user = features.iloc[[0, 300]]
    assert of_user["age"].tolist() == [pytest.approx(-0.4), 0] and of_user["woman"].tolist() == [1, -1]
    assert of_user["zip 0_3"].tolist() == of_user["zip 1_7"].tolist() == [1, 1]
    assert of_user["Fave Sports_Individual sports"].tolist() == [1, 0]
    assert of_user["Fave Sports_Skating"].tolist() == of_user["Most listened musics_Rock"].tolist() == [1, 1]
    people = ads(tmp_path)  # without the user who liked none
    assert (people.clients, len(people.label), people.group[0]) == (1, 300, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"U0001-RT": "", "U0061-RT": ""}, "has no U0001-RT.csv or its like; download ADS16 from"),
        ({"U0061-PREF": ""}, "Cannot read .*U0061-PREF.csv: No such file"),
        ({"U0001-RT": "Cat0;Cat1\nA;B\n1;2\n"}, "U0001-RT.csv is not laid out as ADS16's is"),
        ({"U0001-RT": USERS["U0001"]["RT"].replace("5", "6")}, "U0001-RT.csv is not laid out"),
        ({"U0001-RT": USERS["U0001"]["RT"].replace("4", "")}, "U0001-RT.csv is not laid out"),
        ({"U0061-INF": USERS["U0061"]["INF"].replace("Income", "Wage")}, "U0061-INF.csv is not laid out"),
        ({"U0061-INF": USERS["U0061"]["INF"].replace('"M"', '""')}, "U0061-INF.csv is not laid out"),
        ({"U0061-PREF": PREF}, "U0061-PREF.csv is not laid out"),
    ],
)
def test_other_directories_are_refused(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataSetError, match=message):
        load_ads(written(tmp_path, changes))
