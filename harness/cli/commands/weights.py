"""`weights`: sample weights, from one run or a chain's."""

from pathlib import Path
from typing import Any

from harness.cli.commands.releases import present, release
from harness.pipeline.earlier_results import add_up
from harness.pipeline.run import MANIFEST
from harness.system.result_files import default_out, write_files
from harness.views.releases import weights as view
from harness.views.run import in_short, privacy


def weights(options: Any) -> None:
    """Run π_RW, or add up the counts of a chain's runs."""
    if options.add:
        _add_up(list(map(Path, options.add)), options)
    else:
        release(options)


def _add_up(directories: list[Path], options: Any) -> None:
    from harness.hosts.signed_results import verify  # slow to load

    target = options.out or default_out("weights")
    estimated, files = add_up(directories, verify)
    write_files(target, files)
    manifest, answer = files[MANIFEST], list(view.weights(estimated.weights))
    chain = view.chain(manifest)
    present(
        options,
        manifest,
        target,
        "Weights",
        answer,
        [in_short(manifest), *chain],
        [*privacy(manifest), *chain],
    )
