"""Input encodings: tables of integers to share, and their neighboring relations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fairshares.harness.errors import OptionError, RecordDomainError, named, named_command, refuse
from fairshares.harness.inputs.record_schema import (
    Cap,
    RecordDomain,
    RecordKind,
    ValueGrid,
    caps_to_choose_from,
)
from fairshares.harness.inputs.rings import XOR, Ring
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit, default_relation
from fairshares.protocols.arrays import Integers
from fairshares.protocols.circuits.noise import MAX_INPUT_WIDTH, input_widths
from fairshares.protocols.circuits.slots import slot_bits, slot_blocks
from fairshares.protocols.spec import KEYS, PRODUCT, SLOTS, SPLIT, InputForm

if TYPE_CHECKING:  # parties import this module without records
    from fairshares.harness.inputs.records import ClientRecords
    from fairshares.harness.system.progress import Say


class _Encoding(ABC):
    """How one input form writes clients' records as rows of integers."""

    def is_per_record(self, domain: RecordDomain) -> bool:  # noqa: ARG002
        """Return whether a row is a record, so that their number is public; else it is a client."""
        return False

    @abstractmethod
    def columns(self, domain: RecordDomain) -> int:
        """Return a row's length; RecordDomainError for a domain that the form cannot hold."""

    @abstractmethod
    def table(self, records: ClientRecords) -> Integers:
        """Return the integers, shape (columns, rows)."""

    def held(self, records: ClientRecords, say: Say) -> ClientRecords:  # noqa: ARG002
        """Return the records that the form can hold, and report the others."""
        return records


class _Split(_Encoding):
    """A count per cell.

    Of performance values a client has, in its group, the steps from the value to both ends of the range; and
    0 and 0 in other groups.
    """

    def columns(self, domain: RecordDomain) -> int:
        return domain.cells

    def table(self, records: ClientRecords) -> Integers:
        domain = records.domain
        if domain.values:
            return self._steps(records, domain.values)
        if domain.cap:
            return self._capped(records, domain.cap)
        return records.counts_per_client()

    def _steps(self, records: ClientRecords, grid: ValueGrid) -> Integers:
        assert records.detail is not None
        table = np.zeros((records.domain.cells, records.clients), dtype=np.int64)
        table[2 * records.group, records.client] = grid.steps + records.detail
        table[2 * records.group + 1, records.client] = grid.steps - records.detail
        return table

    def _capped(self, records: ClientRecords, cap: Cap) -> Integers:
        """Return the counts of the cells that a client's slots hold."""
        cells = records.domain.cells
        clients = records.clients
        chosen = _chosen(records, cap)
        place = (chosen * clients + np.arange(clients))[chosen >= 0]
        return np.bincount(place, minlength=cells * clients).reshape(cells, clients)


class _Product(_Encoding):
    """PrivFairFL's: indicators of all groups but the last, then counts per cell of one group.

    A row with a prediction is a record: indicators of its group, label and predicted label, each without the
    last.
    """

    def is_per_record(self, domain: RecordDomain) -> bool:
        return domain.kind is RecordKind.PREDICTION

    def columns(self, domain: RecordDomain) -> int:
        if domain.cap is not None or domain.kind not in (RecordKind.NONE, RecordKind.PREDICTION):
            raise RecordDomainError(
                "The input form product has groups and labels, or predictions too, and no cap; choose "
                f"another {named('input_form')}."
            )
        if self.is_per_record(domain):
            return sum(size - 1 for size in domain.shape)
        return len(domain.groups) - 1 + domain.cells // len(domain.groups)

    def table(self, records: ClientRecords) -> Integers:
        domain = records.domain
        assert domain.cap is None  # a product keeps no client to a cap
        if self.is_per_record(domain):
            return self._records(records.singly)
        counts = records.counts_per_client().reshape(len(domain.groups), -1, records.clients)
        groups = _indicators(records.group_per_client(), len(domain.groups))
        return np.concatenate([groups, counts.sum(axis=0)])

    def _records(self, records: ClientRecords) -> Integers:
        assert records.detail is not None
        groups, labels, predictions = records.domain.shape
        return np.concatenate(
            [
                _indicators(records.group, groups),
                _indicators(records.label, labels),
                _indicators(records.detail, predictions),
            ]
        )

    def held(self, records: ClientRecords, say: Say) -> ClientRecords:
        return records if self.is_per_record(records.domain) else records.of_one_group(say)


class _Keys(_Encoding):
    """The record's cell, a row each; with a contribution bound the cell in each slot, a row per client."""

    def is_per_record(self, domain: RecordDomain) -> bool:
        return domain.cap is None  # else each client has as many keys

    def columns(self, domain: RecordDomain) -> int:
        if not domain.labels:
            raise RecordDomainError(
                "The input form keys is for records with labels, and values have none; choose another "
                f"{named('input_form')}."
            )
        if domain.score_columns > 1:
            raise RecordDomainError(
                f"A key has one score, and of {len(domain.labels)} labels a record has as many; use "
                f"{named('variant', 'histogram')}, by which clients count."
            )
        return domain.cap.slots if domain.cap else 1

    def table(self, records: ClientRecords) -> Integers:
        if records.domain.cap is None:
            return records.singly.cell[np.newaxis]
        chosen = _chosen(records, records.domain.cap)
        key_of_none = records.domain.cells  # the key of an empty slot
        return np.where(chosen < 0, key_of_none, chosen)


class _Slots(_Encoding):
    """A code per slot: the cell's place, from 1 on, and 0 for an empty slot.

    The one slot of a performance value holds the group's code, and above it the steps from the range's lower
    end. That of a client's size holds how many candidate bounds the client exceeds.
    """

    def columns(self, domain: RecordDomain) -> int:
        if domain.cap is None and domain.kind is not RecordKind.SIZE:
            raise RecordDomainError(
                f"The input form slots needs a cap on what one client contributes: {named('cap')}."
            )
        return domain.cap.slots if domain.cap else 1

    def table(self, records: ClientRecords) -> Integers:
        domain = records.domain
        if domain.kind is RecordKind.SIZE:
            exceeded = np.searchsorted(caps_to_choose_from(domain.max_count)[:-1], records.sizes)
            return exceeded[np.newaxis].astype(np.int64)
        if domain.values:
            return self._values(records, domain.values)
        assert domain.cap is not None
        return _chosen(records, domain.cap) + 1

    def _values(self, records: ClientRecords, grid: ValueGrid) -> Integers:
        assert records.detail is not None
        slots = np.zeros((1, records.clients), dtype=np.int64)
        value = (records.detail + grid.steps) << slot_bits(len(records.domain.groups))
        slots[0, records.client] = records.group + 1 + value
        return slots


_ENCODINGS: Mapping[str, _Encoding] = {
    SPLIT.name: _Split(),
    PRODUCT.name: _Product(),
    KEYS.name: _Keys(),
    SLOTS.name: _Slots(),
}


def is_per_record(domain: RecordDomain, form: str) -> bool:
    """Return whether a row of an input form is a record, so that their number is public."""
    return form in _ENCODINGS and _ENCODINGS[form].is_per_record(domain)


def shared_over(form: InputForm, domain: Ring) -> Ring:
    """Return the ring of the shares in a model over `domain`."""
    return XOR if form.shares_bits else domain


def count_columns(domain: RecordDomain, form: str) -> int:
    """Return the number of integers in a row of an input form.

    Raises:
        RecordDomainError: The form cannot hold records of this domain.
    """
    return _ENCODINGS[form].columns(domain)


def count_rows(records: ClientRecords, form: str) -> int:
    """Return the number of rows of these records."""
    return int(records.count.sum()) if is_per_record(records.domain, form) else records.clients


def as_upload(records: ClientRecords, form: InputForm, say: Say) -> ClientRecords:
    """Return the records that the encoding can hold, and report the others."""
    return _ENCODINGS[form.name].held(records, say)


def columns_of(records: ClientRecords, form: InputForm) -> Integers:
    """Return the values to share, shape (columns, rows), within the bound; or raise RecordsError."""
    return _ENCODINGS[form.name].table(records)


def _chosen(records: ClientRecords, cap: Cap) -> Integers:
    """Return the cell in each of a client's slots, or -1, shape (slots, clients)."""
    single = records.singly
    return cap.choose(single.client, single.cell, single.clients)


def _indicators(index: Integers, size: int) -> Integers:
    """Return whether each index is the index of each row but the last, shape (size - 1, n)."""
    return np.asarray(index == np.arange(size - 1)[:, np.newaxis], dtype=np.int64)


def input_bits(values: bytes, width: int, per_lane: int) -> bytes:
    """Return the integers, as text, that input a party's shares of slots to `circuits.slots`.

    A slot is the lowest `width` bits of a word in `values`.
    """
    words = XOR.from_bytes(values).ravel()
    integers = []
    position = 0
    for in_lane, lanes in slot_blocks(len(words), per_lane):
        slots = words[position : position + in_lane * lanes].reshape(lanes, in_lane)
        position += slots.size
        bits = (slots[:, :, np.newaxis] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
        columns = bits.reshape(lanes, in_lane * width)
        for at, size in enumerate(input_widths(in_lane * width)):
            block = columns[:, at * MAX_INPUT_WIDTH :][:, :size]
            integers.append((block << np.arange(size, dtype=np.uint64)).sum(axis=1, dtype=np.uint64))
    return "".join(f"{integer}\n" for integer in np.concatenate(integers).tolist()).encode()


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
            f"one exists: say {named('neighboring_relation', 'replace_one')}, or leave out what asks for "
            "this form."
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
            f"Input form {form.name} keeps no client to a cap; leave out what asks for this form, or "
            f"{named('privacy_unit')}.",
        ),
        (
            chosen not in (None, NeighboringRelation.ZERO_OUT_ONE),
            f"{named('privacy_unit', 'client')} is under zero_out_one, not {chosen}; leave out "
            f"{named('neighboring_relation')}.",
        ),
    )
    return NeighboringRelation.ZERO_OUT_ONE
