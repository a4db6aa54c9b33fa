"""`audit` and `noise`."""

from collections.abc import Callable, Iterable
from fractions import Fraction

from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.options import AuditOptions, NoiseOptions
from fairshares.harness.engines.registry import chosen_model, engine_of
from fairshares.harness.errors import AuditError, OptionError
from fairshares.harness.pipeline.noise_samples import open_noise
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.privacy.audit.releases import AUDIT_TARGETS, audit_command, reference_set
from fairshares.harness.privacy.audit.samplers import Audited, audit_sampler
from fairshares.harness.releases.noise_samples import joint_sampler, own_sampler
from fairshares.harness.request.readers import parse_delta
from fairshares.harness.request.releases import NoiseRequest
from fairshares.harness.request.request import DEFAULT_DELTA, JOINT, distribution_of
from fairshares.harness.system.result_files import default_out, new_directory, write_json
from fairshares.harness.views import noise as noise_view
from fairshares.harness.views.audit import audit as view
from fairshares.harness.views.rendering.html import write_page
from fairshares.harness.views.run_summary import results
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounding import exact_text

DELTA = parse_delta(DEFAULT_DELTA, "delta")
_OF_EVERY_AUDIT = ("sampler", "release", "out", "plot")  # options that no kind of audit refuses
_STEPS = {"audit": "recompute distributions and compositions", "plot": "draw δ(ε)"}


def audit(options: AuditOptions) -> None:
    """Audit a sampler, a release or the reference set, of the project's own."""
    audit_with(options, reference_set, _not_installed)


def _not_installed(_epsilon: Fraction) -> list[Audited]:
    raise OptionError(
        "Published noise is audited in a clone of the project alone, not by an installed package, which has "
        "none of it; clone the project to use --sampler published."
    )


def audit_with(
    options: AuditOptions,
    reference: Callable[[], Iterable[Audited]],
    published: Callable[[Fraction], list[Audited]],
) -> None:
    """Audit a sampler, a release or a reference set; write and show what was found.

    Args:
        options: The options of the command.
        reference: Makes the audits of the reference set, in the order of tables.
        published: Makes the audits of published noise for an epsilon.

    Raises:
        OptionError: An option does not go with what is audited.
        AuditError: A guarantee that the project claims does not hold; files are written all the same.
    """
    directory = options.out or default_out("audit")
    with cli.steps(_STEPS) as begin, new_directory(directory) as partial:
        begin("audit")
        if options.sampler and options.release:
            raise OptionError("Audit either a --sampler or a --release.")
        if options.sampler:
            _only(options, "--sampler", "epsilon", "delta", "sensitivity")
            audits = _sampler(options.sampler, options, published)
        elif options.release:
            audits = [_release(options.release, options)]
        else:
            _only(options, "the reference set")
            audits = list(reference())
        rows = []
        for audited in audits:
            rows.extend(audited.rows())
        write_json(partial / "audit.json", {"rows": rows})
        shown = list(view(audits))
        if options.plot:
            begin("plot")
            write_page("Audit", "what noise and releases protect, recomputed", shown, partial)
    cli.show(*shown, results(directory, options.plot))
    if cli.output.json:
        cli.print_json_text((directory / "audit.json").read_text(encoding="utf-8"))
    faults = [
        f"{audited.name} at ε = {exact_text(audited.requested.epsilon)}: {audited.fault}"
        for audited in audits
        if audited.fault
    ]
    if faults:
        raise AuditError(f"A guarantee does not hold. {'; '.join(faults)}.")


def _only(options: AuditOptions, what: str, *offered: str) -> None:
    """Refuse options that were given and are not among the offered; `what` names the kind of audit."""
    for name, option in options.declared.items():
        is_given = bool(options.value_of(name))
        if is_given and name not in offered and name not in _OF_EVERY_AUDIT:
            raise OptionError(f"{option.flag} does not go with {what}.")


def _sampler(
    name: str, options: AuditOptions, published: Callable[[Fraction], list[Audited]]
) -> list[Audited]:
    """Audit a sampler: this project's, or the published ones by what was given."""
    epsilon = options.epsilon or Fraction(1)
    if name == "published":
        _only(options, "--sampler published, which takes no other parameter", "epsilon")
        return published(epsilon)
    return [audit_sampler(epsilon, options.delta or DELTA, options.sensitivity or 1)]


def _release(name: str, options: AuditOptions) -> Audited:
    """Audit a release of the options' sizes, under their neighboring relation, with their noise."""
    target = AUDIT_TARGETS[name]
    relation = options.neighboring_relation or target.relations[0]
    distribution = distribution_of(options.noise or JOINT)
    offered = [*target.sizes, "epsilon", "delta", "neighboring_relation", "noise"]
    if target.counts_records and relation is NeighboringRelation.ZERO_OUT_ONE:
        offered.append("cap")
    if distribution:
        offered += ["security", "parties"]
    _only(options, f"--release {name} under {relation}", *offered)
    distributed = None
    if distribution:
        model = chosen_model(options.trust.security, cli.announce, options.trust.parties)
        distributed = (distribution, model.parties, model.corruptions)
    sizes = {name: size for name, size in options.sizes.items() if name in target.sizes}
    return audit_command(
        name,
        sizes,
        relation,
        epsilon=options.epsilon or Fraction(1),
        delta=options.delta or DELTA,
        cap=options.cap,
        distributed=distributed,
    )


def noise(options: NoiseOptions) -> None:
    """Run π_LAP on this machine."""
    delta = options.delta or DELTA
    distribution = distribution_of(options.noise)
    model = chosen_model(options.trust.security, cli.announce, options.trust.parties)
    if distribution is None:
        chosen = joint_sampler(options.epsilon, delta)
    else:
        chosen = own_sampler(distribution, options.epsilon, delta, model)
    settings = RunSettings(NoiseRequest(epsilon=1, security=model), options.timeout)
    target = options.out or default_out("noise")
    with cli.steps(noise_view.STEPS) as begin:
        summary, manifest = open_noise(chosen, options.n, settings, target, begin, runner=engine_of(model))
    cli.show(*noise_view.noise(chosen, summary, manifest), results(target))
    if cli.output.json:
        cli.print_json_text((target / "noise.json").read_text(encoding="utf-8"))
