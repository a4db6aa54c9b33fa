"""Reads earlier results, without spending ε."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.errors import FairSharesError, ResultFileError
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    EarlierManifest,
    Manifest,
    opened_by,
    read_manifest,
    read_statement,
)
from fairshares.harness.releases.base import Answer, statistic_class
from fairshares.harness.releases.files import ResultFile, read_file
from fairshares.harness.releases.registry import REQUESTS

_SHOWN = 200  # characters of a reason
# Errors that reading files may raise which somebody changed, for whatever they hold.
WRONG_VALUES = (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class EarlierFiles:
    """The manifest and the other files of an earlier run."""

    manifest: EarlierManifest
    files: Sequence[ResultFile]


def read_files(directory: Path) -> EarlierFiles:
    """Return a run's files; ResultFileError if there is no run."""
    manifest = read_manifest(directory)
    if manifest.task not in REQUESTS:
        raise ResultFileError(
            f"{directory} is the result of {manifest.task!r}; what can be read is that of "
            f"{', '.join(REQUESTS)}."
        )
    files = []
    for kind in statistic_class(manifest.task).file_types:
        path = directory / kind.file_name
        if os.path.lexists(path):
            files.append(read_file(path, kind))
    _check_statement(manifest, directory / MANIFEST)
    return EarlierFiles(manifest, files)


def _check_statement(manifest: EarlierManifest, path: Path) -> None:
    """Raise ResultFileError unless the guarantee is one, and the guarantee of the revealing run."""
    try:
        if read_statement(opened_by(manifest)).stated.exact != manifest.privacy.exact:
            raise ValueError("it is another than that of the run which revealed the curves")
    except (FairSharesError, ValueError) as error:
        raise ResultFileError(
            f"{path} states no guarantee as a run does: {str(error)[:_SHOWN]}; name the directory of a run "
            "as it left it."
        ) from None


def found_in(earlier: EarlierFiles, directory: Path) -> Answer:
    """Return the result in a run's files; ResultFileError if they hold none.

    Guarantees: it equals the run's own result to the last bit.  [test: tests/fairshares/test_results.py]
    """
    statistic = statistic_class(earlier.manifest.task)
    if statistic.gone_on_with is not None:
        revealed_by(earlier, directory)
    try:
        found: Answer = statistic.read_files(earlier.files)
        return found
    except ResultFileError:
        raise
    except WRONG_VALUES:
        raise ResultFileError(
            f"{directory} does not hold the files of a run of {earlier.manifest.task}, as it wrote them."
        ) from None


def revealed_by(earlier: EarlierFiles, directory: Path) -> Manifest:
    """Return the manifest of the run that revealed values with which later results go on.

    The manifest and the file have to be as this version writes them, or ResultFileError is raised. Consistent
    changes of all counts go unnoticed.
    """
    revealed = opened_by(earlier.manifest)
    if isinstance(revealed, Manifest) and _is_as_written(earlier, revealed):
        return revealed
    file = statistic_class(earlier.manifest.task).gone_on_with
    assert file is not None, "nobody goes on with another release"
    raise ResultFileError(
        f"{directory / file.file_name} and {MANIFEST} beside it are not as this version writes them: they "
        "were changed, or another version wrote them; name the directory of a run as it left it."
    )


def _is_as_written(earlier: EarlierFiles, revealed: Manifest) -> bool:
    """Return whether files state what a run would, and the values are as it would write them."""
    stated = earlier.manifest.privacy
    try:
        of_run = read_statement(revealed).restated
        if not stated == revealed.privacy == of_run:
            return False
        return statistic_class(earlier.manifest.task).is_as_written(earlier.files, stated)
    except WRONG_VALUES:
        return False
