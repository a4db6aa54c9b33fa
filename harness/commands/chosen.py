"""What options that many commands share stand for."""

from __future__ import annotations

from pathlib import Path

from harness import cli
from harness.cli import say
from harness.errors import OptionError
from harness.models import Model
from harness.options import parse_choice, parse_max_count, parse_names
from harness.records import DEFAULT_MAX_COUNT, RecordDomain, read_domain
from harness.schemes import choose_model
from protocols.spec import InputForm, ProtocolSpec


def chosen_model(name: str) -> Model:
    """Return the model of that name; without one the default, and say which that is."""
    chosen = choose_model(name or None)
    if not name:
        say(f"Model: {chosen.name} (choose another with --model; ./inv schemes lists them)", cli.err)
    return chosen


def chosen_form(spec: ProtocolSpec, name: str) -> InputForm:
    """Return the protocol's input form of that name. Raises: OptionError: it has none."""
    return spec.input_forms[parse_choice("--input-form", name, list(spec.input_forms))]


def declared_domain(domain: str, groups: str, labels: str, max_count: str) -> RecordDomain | None:
    """Return the domain that the options declare, None if they leave it to be inferred."""
    if domain:
        if groups or labels or max_count:
            raise OptionError(
                "Declare the domain either by --domain or by --groups, --labels and --max-count."
            )
        return read_domain(Path(domain))
    if bool(groups) != bool(labels):
        raise OptionError("--groups and --labels go together: declare both.")
    if not groups:
        return None
    return RecordDomain(
        tuple(sorted(parse_names("--groups", groups))),
        tuple(sorted(parse_names("--labels", labels))),
        parse_max_count(max_count) if max_count else DEFAULT_MAX_COUNT,
    )
