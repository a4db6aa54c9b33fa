"""`schemes`: which models can run here."""

from __future__ import annotations

import json

from harness.cli.options import SchemesOptions
from harness.engines.registry import schemes as find_schemes
from harness.views import weights as show


def schemes(options: SchemesOptions) -> None:
    """Print which models can run here, and why one cannot."""
    rows = find_schemes()
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        show.schemes(rows)
