"""One version everywhere: what runs, how it is cited, what has changed in it."""

import re
from pathlib import Path

from harness import __version__


def test_the_version_is_the_same_wherever_it_stands(project: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (project / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None and cited[1] == __version__
    assert re.search(
        rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$",
        (project / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
