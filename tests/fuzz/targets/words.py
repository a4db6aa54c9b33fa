"""Values of field elements, as parties read them from columns."""

from fairshares.harness.inputs.rings import FIELD
from tests.fuzz.mutate import Target


def _read(data: bytes) -> None:
    whole = len(data) - len(data) % FIELD.value_bytes
    FIELD.reduce(FIELD.from_bytes(data[:whole]))


TARGETS = [Target("field-words", _read, [bytes(range(64)), b"\xff" * 48])]
