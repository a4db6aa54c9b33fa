"""Draws delta as a function of epsilon, for what an audit found."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from harness.privacy.audit.samplers import Audited
from protocols.accounting.rounding import exact_text
from protocols.circuits.coins import exp_bounds

_POINTS = 250
# A colour for each name, told apart by colour-blind readers, too (Okabe and Ito); a style for each epsilon.
_COLOURS = ("#0072B2", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9")
_STYLES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))


def plot(audits: Sequence[Audited], path: Path) -> None:
    """Write a PNG with a curve for each of the audits, all of which have one.

    Computes: an upper bound of delta at every epsilon from 0 to a third past the largest that was asked
    for. A curve that has come down to what no epsilon takes away goes on as a flat line.
    """
    end = max(audit.epsilon for audit in audits) * Fraction(4, 3)
    steps = {Fraction(float(x)) for x in np.linspace(0, float(end), _POINTS)}
    kinks = {x for x in map(_reached, audits) if x < end}
    at = sorted(steps | kinks)
    ratios = [exp_bounds(epsilon)[0] for epsilon in at]
    names = list(dict.fromkeys(audit.name for audit in audits))
    asked_for = list(dict.fromkeys(audit.epsilon for audit in audits))
    with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(10.5, 5.5), layout="constrained")
        axes = figure.add_subplot()
        for audit in audits:
            assert audit.curve is not None
            delta = [float(audit.curve.delta(ratio)) for ratio in ratios]
            colour = _COLOURS[names.index(audit.name) % len(_COLOURS)]
            style = _STYLES[asked_for.index(audit.epsilon) % len(_STYLES)]
            label = f"{audit.name}, ε = {exact_text(audit.epsilon)}"
            axes.plot([float(x) for x in at], delta, color=colour, ls=style, lw=2.2, label=label)
            asked = float(audit.curve.delta_bounds(audit.epsilon)[1])
            axes.plot(float(audit.epsilon), asked, "o", color=colour, ms=7, clip_on=False)
        axes.set_yscale("log")
        axes.set_ylim(top=2)
        axes.set_xlim(0, float(end))
        axes.set_xlabel("ε")
        axes.set_ylabel("δ")
        axes.set_title(
            "What the noise gives away: δ at each ε. Dots: the ε that it was asked for", loc="left"
        )
        axes.grid(alpha=0.3, lw=0.6)
        figure.legend(loc="outside right center", frameon=False)
        figure.savefig(path, dpi=150)


def _reached(audit: Audited) -> Fraction:
    """Return where the curve comes down to what no epsilon takes away."""
    assert audit.curve is not None
    epsilon = audit.curve.least_epsilon(audit.curve.impossible)
    assert epsilon is not None
    return epsilon
