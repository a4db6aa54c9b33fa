"""Clients that a command plays itself: a key each, all sending from this process while the parties run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.clients.sender import Sender, sending
from harness.clients.session import ClientInputs, Upload
from harness.engines.parties.certificates import make_key


def local_clients(
    sent: Sequence[npt.NDArray[np.int64]], terms: dict[str, Any], directory: Path, seconds: float
) -> ClientInputs:
    """Return clients with one connection each. Args: sent: what each sends, client by client, flat;
    directory: for their keys, made and to be removed by the caller; seconds: that the parties may take.
    """
    senders, uploads = [], []
    for number, values in enumerate(sent):
        certificate = make_key(directory, f"C{number}", f"C{number}")
        senders.append(Sender(number, certificate, certificate.with_suffix(".key"), values))
        uploads.append(Upload(len(values), certificate.read_text()))
    begin = partial(sending, senders, expected=terms, seconds=seconds)
    return ClientInputs(tuple(uploads), terms, begin)
