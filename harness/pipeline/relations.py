"""The neighboring relation of a run on records that chooses none."""

from contextlib import suppress
from dataclasses import replace

from fairshares.harness.errors import OptionError, StockError, named
from fairshares.harness.inputs.encoding import is_per_record
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.preprocessing import joint_noise_of, terms_of
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.releases.base import Answer, PreparedRelease
from fairshares.harness.request.request import Protect, Request
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit

RECORD_RELATIONS = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)


def under_kept_relation(request: Request, domain: RecordDomain, account: Account) -> Request:
    """Return a request under the relation of its population's first charge, if it chooses none itself.

    Runs under different relations do not add up. A request that protects clients has one relation, and so has
    an input form with a row per record: they stay as they are.
    [test: tests/harness/pipeline/test_relations.py]
    """
    protect = request.protect
    is_chosen = protect.neighboring_relation is not None or protect.of_clients
    if is_chosen or is_per_record(domain, request.form.name):
        return request
    kept = account.kept_relation(PrivacyUnit.RECORD)
    if kept is None:
        return request
    return request.but(Protect.neighboring_relation, kept)


def new_default(request: Request, domain: RecordDomain, most: int) -> str:
    """Return a sentence on a relation that version 1.0 would not have taken; "" if it would have.

    Args:
        request: The request for the run, under the relation of its population if that has one.
        domain: The facts about the records, as they were read.
        most: The most records of a client by the declaration alone, by which version 1.0 decided.
    """
    before = request.relation_in(replace(domain, max_count=most))
    if request.relation_in(domain) is before:
        return ""
    return said_of_new_default(before)


def said_of_new_default(before: NeighboringRelation) -> str:
    """Say what ε holds for where a client has one record, what that costs, and how to have the other.

    Version 1.0 took the relation `before`.
    """
    return (
        "ε holds for what each record says (replace_one), at about twice the noise; version 1.0 hid only "
        f"whether a record exists: {named('neighboring_relation', str(before))}."
    )


def refuse_noise_of_another_relation(
    prepared: PreparedRelease[Answer], stock: Stock, account: Account
) -> None:
    """Raise StockError if the noise made ahead in a stock is for this release under another relation only."""
    if _has_noise(prepared, stock):
        return
    relation = prepared.plan.relation
    if relation not in RECORD_RELATIONS:
        return
    for other in RECORD_RELATIONS:
        with suppress(OptionError):  # a form has one relation only, or no noise is for so small an ε
            request = prepared.release.but(Protect.neighboring_relation, other)
            if _has_noise(prepared.statistic.prepare(request, prepared.domain), stock):
                raise noise_of_another_relation(stock, other, relation, account)


def noise_of_another_relation(
    stock: Stock, other: NeighboringRelation, relation: NeighboringRelation, account: Account
) -> StockError:
    """Return the error of a run under a relation, if the noise made ahead is for another one."""
    or_run = ""
    if account.kept_relation(PrivacyUnit.RECORD) is None:
        or_run = f", or run with {named('neighboring_relation', str(other))}"
    return StockError(
        f"{stock.directory} has noise for this release under {other}, and this run is under {relation}: make "
        f"its noise with {named('neighboring_relation', str(relation))}{or_run}."
    )


def _has_noise(prepared: PreparedRelease[Answer], stock: Stock) -> bool:
    return bool(stock.pieces(terms_of(joint_noise_of(prepared))))
