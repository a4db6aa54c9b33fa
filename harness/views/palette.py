"""Colors and markers of all figures."""

from typing import Literal

# Okabe and Ito's colors, which color-blind people can tell apart, and a second sign for each.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
STYLES: tuple[Literal["-"] | tuple[float, tuple[float, ...]], ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (5, 2, 1, 2)),
)
GREY = "#888888"
INK = "#1d2430"  # text on a light fill, whatever the page is
