"""Reads the texts of options that are not of a release: budgets, clients who are invited, parties, networks.

As `harness.request.readers`, from which they differ in what they import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.errors import OptionError
from protocols.accounting.rounding import exact_number

if TYPE_CHECKING:
    from harness.engines.emulated_network.profiles import Network
    from protocols.guarantee import Budget


def parse_budget(text: str, option: str = "--budget") -> Budget:
    """Read a budget: `3` limits epsilon, `3,1e-6` also delta; then `renyi` or a number of runs is its rule.

    Raises: OptionError.
    """
    from harness.privacy.ledger.filters import MAX_EPSILON, MAX_RUNS, renyi_order
    from protocols.guarantee import Budget

    first, *rest = text.split(",")
    epsilon, more = exact_number(first), [exact_number(each) for each in rest[:1]]
    good = epsilon is not None and epsilon >= 0 and all(delta is not None and 0 < delta < 1 for delta in more)
    rule = rest[1] if len(rest) == 2 else None
    if rule is not None:
        counted = rule.isascii() and rule.isdigit() and len(rule) < 10 and 1 <= int(rule) <= MAX_RUNS
        good = good and (counted or rule == "renyi") and 0 < (epsilon or 0) <= MAX_EPSILON
    if not good or len(rest) > 2:
        raise OptionError(
            f"{option} must be a total ε, of at least 0, and after a comma a total δ if that is limited too, "
            f"for example 3 or 3,1e-6, and after another one how runs add up, if not by their sum: renyi, or "
            f"how many runs alike, at most {MAX_RUNS}, for example 3,1e-9,renyi; got {text!r}."
        )
    assert epsilon is not None
    if rule is None:
        return Budget(epsilon, more[0] if more else None)
    assert more[0] is not None
    if rule == "renyi":
        return Budget(epsilon, more[0], order=renyi_order(epsilon, more[0]))
    return Budget(epsilon, more[0], runs=int(rule))


def parse_clients(text: str, option: str = "--clients") -> int:
    """Read how many clients are invited. Raises: OptionError."""
    from harness.clients.session import MAX_CONNECTIONS

    if not re.fullmatch("[0-9]{1,3}", text) or not 0 < int(text) <= MAX_CONNECTIONS:
        raise OptionError(
            f"{option} must be how many clients are invited, 1 to {MAX_CONNECTIONS}; got {text!r}."
        )
    return int(text)


def parse_party(text: str, option: str = "--party") -> int:
    """Read a party's number, from 0. Raises: OptionError."""
    if not re.fullmatch("[0-9]{1,3}", text):
        raise OptionError(f"{option} must be the number of a party, 0 for the first; got {text!r}.")
    return int(text)


def parse_link(text: str, _option: str = "--network") -> Network | None:
    """Read what parties are linked by; None for nothing but this machine. Raises: OptionError."""
    from harness.engines.emulated_network.profiles import parse_network

    return parse_network(text)
