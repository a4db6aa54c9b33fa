"""The neighboring relation that records and an input encoding allow."""

from harness.errors import OptionError, named
from harness.inputs.encoding import is_per_record
from harness.inputs.record_schema import RecordDomain, RecordKind
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit, default_relation
from protocols.spec import InputForm


def relation_for(
    domain: RecordDomain, form: InputForm, chosen: NeighboringRelation | None, unit: PrivacyUnit
) -> NeighboringRelation:
    """Return the chosen relation, or the default for this domain, encoding and unit.

    Raises:
        OptionError: The encoding reveals what the relation protects, or options for records and clients mix.
    """
    sizes = domain.kind is RecordKind.SIZE
    if domain.cap or sizes or unit is PrivacyUnit.CLIENT or chosen is NeighboringRelation.ZERO_OUT_ONE:
        return _of_clients(domain, form, chosen, unit)
    if not is_per_record(domain, form.name):
        return chosen or default_relation(domain.max_count)
    if chosen is NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise OptionError(
            f"Input form {form.name} shows how many records there are, so it cannot protect whether "
            f"one exists: use {named('neighboring_relation', 'replace_one')}, or "
            f"{named('input_form', 'split')}."
        )
    return NeighboringRelation.REPLACE_ONE


def _of_clients(
    domain: RecordDomain, form: InputForm, chosen: NeighboringRelation | None, unit: PrivacyUnit
) -> NeighboringRelation:
    if unit is PrivacyUnit.RECORD:
        raise OptionError(
            f"A cap, and {named('neighboring_relation', 'zero_out_one')}, are for all records of a client "
            f"together: say {named('privacy_unit', 'client')}."
        )
    if not domain.cap and domain.kind is not RecordKind.SIZE:
        raise OptionError(
            f"{named('privacy_unit', 'client')} needs to know how much of a client counts: "
            f"{named('cap', 10)}, "
            f"for example, or {named('cap', 'weight-one')}; ./inv cap chooses a cap."
        )
    if not form.capped:
        raise OptionError(
            f"Input form {form.name} keeps no client to a cap; leave out {named('input_form')}, or "
            f"{named('privacy_unit')}."
        )
    if chosen not in (None, NeighboringRelation.ZERO_OUT_ONE):
        raise OptionError(
            f"{named('privacy_unit', 'client')} is under zero_out_one, not {chosen}; leave out "
            f"{named('neighboring_relation')}."
        )
    return NeighboringRelation.ZERO_OUT_ONE
