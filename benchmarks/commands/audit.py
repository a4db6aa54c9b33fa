"""`./inv audit` of a clone: the users' command, with published mechanisms beside the project's own."""

from benchmarks.papers.audits import published_samplers, reference_set
from fairshares.harness.cli.commands.audit import audit_with
from fairshares.harness.cli.options import AuditOptions


def audit(options: AuditOptions) -> None:
    """Audit a sampler, a release or the reference set, published ones among them."""
    audit_with(options, reference_set, published_samplers)
