"""Input encodings: tables of integers to share, and their neighboring relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.errors import OptionError, RecordDomainError, named, named_command, refuse
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind, caps_to_choose_from
from harness.inputs.rings import XOR, Ring
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit, default_relation
from protocols.arrays import Integers
from protocols.circuits.noise import MAX_INPUT_WIDTH, input_widths
from protocols.circuits.slots import slot_bits, slot_blocks
from protocols.spec import KEYS, PRODUCT, SLOTS, SPLIT, InputForm

if TYPE_CHECKING:  # parties import this module without records
    from harness.inputs.records import ClientRecords
    from harness.inputs.tables import Say


def is_per_record(domain: RecordDomain, form: str) -> bool:
    """Return whether a row is a record, so that their number is public."""
    if form == KEYS.name:
        return domain.cap is None  # else each client has as many keys
    return form == PRODUCT.name and domain.kind is RecordKind.PREDICTION


def shared_over(form: InputForm, domain: Ring) -> Ring:
    """Return the ring of the shares in a model over `domain`."""
    return XOR if form.shares_bits else domain


def count_columns(domain: RecordDomain, form: str) -> int:
    """Return a row's length, or raise RecordDomainError.

    - `split`: a count per cell. Performance values: per group, the steps to both ends of the range; 0 and 0
      for other groups.
    - `product` (PrivFairFL): indicators of all groups but the last, then counts per cell of one group.
      Predictions: per record, indicators of group, label and predicted label, each without the last.
    - `keys`: the record's cell, or with a contribution bound the cell in each slot.
    - `slots`: a code per slot. Sizes: how many candidate bounds the client exceeds.
    """
    refuse(
        RecordDomainError,
        (
            form == KEYS.name and domain.score_columns > 1,
            f"A key has one score, and of {len(domain.labels)} labels a record has as many; use "
            f"{named('variant', 'histogram')}, by which clients count.",
        ),
        (
            form == SLOTS.name and domain.cap is None and domain.kind is not RecordKind.SIZE,
            f"The input form slots needs a cap on what one client contributes: {named('cap')}.",
        ),
    )
    if form in (KEYS.name, SLOTS.name):
        return domain.cap.slots if domain.cap else 1
    if form == SPLIT.name:
        return domain.cells
    if is_per_record(domain, form):
        return sum(size - 1 for size in domain.shape)
    return len(domain.groups) - 1 + domain.cells // len(domain.groups)


def count_rows(records: ClientRecords, form: str) -> int:
    """Return the number of rows of these records."""
    return int(records.count.sum()) if is_per_record(records.domain, form) else records.clients


def as_upload(records: ClientRecords, form: InputForm, say: Say) -> ClientRecords:
    """Return the records that the encoding can hold, and report the others."""
    of_one_group = form.name == PRODUCT.name and not is_per_record(records.domain, form.name)
    return records.of_one_group(say) if of_one_group else records


def columns_of(records: ClientRecords, form: InputForm) -> Integers:
    """Return the values to share, shape (columns, rows), within the bound; or raise RecordsError."""
    domain = records.domain
    if domain.kind is RecordKind.SIZE:
        exceeded = np.searchsorted(caps_to_choose_from(domain.max_count)[:-1], records.sizes)
        return exceeded[np.newaxis].astype(np.int64)
    if domain.values and form.name == SLOTS.name:
        return _valued_slots(records)
    if domain.values:
        table = np.zeros((domain.cells, records.clients), dtype=np.int64)
        assert records.detail is not None
        table[2 * records.group, records.client] = domain.values.steps + records.detail
        table[2 * records.group + 1, records.client] = domain.values.steps - records.detail
        return table
    if domain.cap:
        return _capped(records, domain.cap, form)
    if form.name == SPLIT.name:
        return records.counts_per_client()
    if form.name == KEYS.name:
        return records.singly.cell[np.newaxis]
    assert form.name == PRODUCT.name
    if is_per_record(domain, form.name):
        records = records.singly
        assert records.detail is not None
        attributes = zip((records.group, records.label, records.detail), domain.shape, strict=True)
        return np.concatenate([_indicators(index, size) for index, size in attributes])
    counts = records.counts_per_client().reshape(len(domain.groups), -1, records.clients)
    return np.concatenate([_indicators(records.group_per_client(), len(domain.groups)), counts.sum(axis=0)])


def _capped(records: ClientRecords, cap: Cap, form: InputForm) -> Integers:
    records, cells, clients = records.singly, records.domain.cells, records.clients
    chosen = cap.choose(records.client, records.cell, clients)
    if form.name == SLOTS.name:
        return chosen + 1
    if form.name == KEYS.name:
        return np.where(chosen < 0, cells, chosen)  # `cells` is the key of an empty slot
    assert form.name == SPLIT.name
    place = (chosen * clients + np.arange(clients))[chosen >= 0]
    return np.bincount(place, minlength=cells * clients).reshape(cells, clients)


def _valued_slots(records: ClientRecords) -> Integers:
    """Return a slot per client: the group's code, and value + steps above it; 0 if none."""
    domain, slots = records.domain, np.zeros((1, records.clients), dtype=np.int64)
    assert records.detail is not None and domain.values is not None
    value = (records.detail + domain.values.steps) << slot_bits(len(domain.groups))
    slots[0, records.client] = records.group + 1 + value
    return slots


def input_bits(values: bytes, width: int, per_lane: int) -> bytes:
    """Return the integers, as text, that input a party's shares of slots to `circuits.slots`.

    A slot is the lowest `width` bits of a word in `values`.
    """
    words, integers, position = XOR.from_bytes(values).ravel(), [], 0
    for in_lane, lanes in slot_blocks(len(words), per_lane):
        slots = words[position : position + in_lane * lanes].reshape(lanes, in_lane)
        position += slots.size
        bits = (slots[:, :, np.newaxis] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
        columns = bits.reshape(lanes, in_lane * width)
        for at, size in enumerate(input_widths(in_lane * width)):
            block = columns[:, at * MAX_INPUT_WIDTH :][:, :size]
            integers.append((block << np.arange(size, dtype=np.uint64)).sum(axis=1, dtype=np.uint64))
    return "".join(f"{integer}\n" for integer in np.concatenate(integers).tolist()).encode()


def _indicators(index: Integers, size: int) -> Integers:
    return np.asarray(index == np.arange(size - 1)[:, np.newaxis], dtype=np.int64)


def relation_for(
    domain: RecordDomain, form: InputForm, chosen: NeighboringRelation | None, unit: PrivacyUnit
) -> NeighboringRelation:
    """Return the chosen relation, or the default for this domain, encoding and unit.

    Raises:
        OptionError: The encoding reveals what the relation protects, or options for records and clients mix.
    """
    of_clients = unit is PrivacyUnit.CLIENT or chosen is NeighboringRelation.ZERO_OUT_ONE
    if domain.cap or domain.kind is RecordKind.SIZE or of_clients:
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
    refuse(
        OptionError,
        (
            unit is PrivacyUnit.RECORD,
            f"A cap, and {named('neighboring_relation', 'zero_out_one')}, are for all records of a client "
            f"together: say {named('privacy_unit', 'client')}.",
        ),
        (
            not domain.cap and domain.kind is not RecordKind.SIZE,
            f"{named('privacy_unit', 'client')} needs to know how much of a client counts: "
            f"{named('cap', 10)}, "
            f"for example, or {named('cap', 'weight-one')}; {named_command('cap')} chooses a cap.",
        ),
        (
            not form.capped,
            f"Input form {form.name} keeps no client to a cap; leave out {named('input_form')}, or "
            f"{named('privacy_unit')}.",
        ),
        (
            chosen not in (None, NeighboringRelation.ZERO_OUT_ONE),
            f"{named('privacy_unit', 'client')} is under zero_out_one, not {chosen}; leave out "
            f"{named('neighboring_relation')}.",
        ),
    )
    return NeighboringRelation.ZERO_OUT_ONE
