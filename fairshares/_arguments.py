"""From a call's arguments to a command's options, and from what commands say of these back to arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pandas as pd

from harness.cli.release_options import OF_ALL, ReleaseOptions
from harness.cli.task_options import PlanOptions
from harness.cli.terminal import silence
from harness.cli.train_options import TrainOptions
from harness.errors import FairSharesError
from harness.inputs.record_schema import as_names
from harness.request.fields import Options, as_text

_ARGUMENTS = {*OF_ALL, *PlanOptions.declared, *TrainOptions.declared}
_FLAG = re.compile(r"--([a-z][a-z-]*)(?: (none)\b| (?=[A-Z\d/]))?")


def with_arguments(text: str) -> str:
    """Return a text with an argument's name, `epsilon=`, in place of each option's, `--epsilon`."""

    def argument(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        value = f'"{flag[2]}"' if flag[2] else ""
        return f"{name}={value}" if name in _ARGUMENTS else flag[0]

    return _FLAG.sub(argument, text)


def options_of(options: type[Options], given: Mapping[str, Any]) -> Any:
    """Return a command's options. Args: given: Python's values by name, None for what is left out.

    Raises: OptionError: one makes no sense; TypeError: the command has no such option.
    """
    if unknown := set(given) - set(options.declared):
        raise TypeError(f"There is no argument {min(unknown)!r} here.")
    if (positive := given.get("positive_label")) is not None and positive != "":
        given = {**given, "positive_label": as_names(pd.Series([positive]))[0]}  # as the column of labels is
    texts = {name: as_text(name, value) for name, value in given.items() if value is not None}
    names = {
        name: as_names(pd.Series(list(given[name]))).tolist()
        for name in ("groups", "labels")
        if issubclass(options, ReleaseOptions) and given.get(name) is not None
    }
    return options(**texts).but(**names)


@contextmanager
def as_a_call() -> Iterator[None]:
    """Print nothing; have our errors name arguments, `epsilon=`, where commands name options."""
    try:
        with silence():
            yield
    except FairSharesError as error:
        error.args = (with_arguments(str(error)),)
        raise
