"""Share files of version 2 by docs/reference/share-files.md alone: nothing of it is the project's own code.

`python -m tests.support.share_files` writes the known-answer vectors; they are the specification's, so they
change with it only.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = Path(__file__).parents[1] / "fixtures" / "share-files-2.json"
BOUND = ("form", "arithmetic", "parties", "clients", "records", "record_domain", "policy", "commitments")
BYTES = {"ring64": 8, "xor64": 8, "field127": 16}
P = 2**127 - 1


def keystream(seed: bytes, size: int) -> bytes:
    """Return AES-256 of the counter's blocks 0, 1, 2, ..., each of 16 bytes, most significant first."""
    block = Cipher(algorithms.AES(seed), modes.ECB()).encryptor()
    return b"".join(block.update(i.to_bytes(16, "big")) for i in range(-(-size // 16)))[:size]


def elements(arithmetic: str, raw: bytes) -> list[int]:
    """Read elements, of a stream too: of the field, 127 bits of each, where all ones are 0."""
    size = BYTES[arithmetic]
    found = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
    return [value % 2**127 % P for value in found] if arithmetic == "field127" else found


def combined(arithmetic: str, a: int, b: int, sign: int = 1) -> int:
    """Return a + b, or a - b where sign is -1."""
    if arithmetic == "xor64":
        return a ^ b
    return (a + sign * b) % (P if arithmetic == "field127" else 2**64)


def commitment(following: bytes) -> str:
    """Return what a party's salt and payload are committed to by."""
    return hashlib.sha256(b"fairshares:share:2:commitment\n" + following).hexdigest()


def identity(header: Mapping[str, Any]) -> str:
    """Return the identity of the upload with this header."""
    bound = {name: header[name] for name in (*BOUND, "copies") if name in header}
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"fairshares:share:2:identity\n" + text.encode()).hexdigest()


def made(values: Sequence[int], fields: Mapping[str, Any], number: int) -> list[tuple[str, bytes]]:
    """Return each party's line, and what follows it; salts and seeds follow from the vector's number."""
    parties, arithmetic = fields["parties"], fields["arithmetic"]
    size, last, following = BYTES[arithmetic], list(values), []
    for party in range(parties):
        salt = bytes((17 * number + party + i) % 256 for i in range(16))
        seed = bytes((31 * number + 7 * party + 3 * i) % 256 for i in range(32))
        if party < parties - 1:
            following.append(salt + seed)
            of_seed = elements(arithmetic, keystream(seed, size * len(values)))
            last = [combined(arithmetic, a, b, -1) for a, b in zip(last, of_seed, strict=True)]
        else:
            following.append(salt + b"".join(value.to_bytes(size, "little") for value in last))
    header = {**fields, "commitments": [commitment(each) for each in following]}
    header |= {"kind": "batch", "batches": 1, "schema": 2, "batch": identity(header)}
    return [
        (
            line({**header, "party": party, "content": "values" if parties - 1 in numbers else "seed"}),
            b"".join(following[number] for number in numbers),
        )
        for party, numbers in ((party, held(header, party)) for party in range(parties))
    ]


def held(header: Mapping[str, Any], party: int) -> list[int]:
    """Return which components a party has, in the order of its file."""
    parties = header["parties"]
    return [(party + i) % parties for i in range(1, parties)] if "copies" in header else [party]


def line(header: Mapping[str, Any]) -> str:
    """Return a header as a file's first line, without its end."""
    return json.dumps(header, sort_keys=True)


def opened(files: Sequence[bytes]) -> list[int]:
    """Return what a sound upload's files add up to. Raises: AssertionError: it is not sound."""
    components: dict[int, bytes] = {}
    last = len(files) - 1
    for party, content in enumerate(files):
        first, _, following = content.partition(b"\n")
        header = json.loads(first)
        assert header["schema"] == 2 and header["party"] == party and header["parties"] == len(files)
        assert header["batch"] == identity(header) and len(header["commitments"]) == len(files)
        numbers = held(header, party)
        assert header.get("copies", 1) == len(numbers)
        assert header["content"] == ("values" if last in numbers else "seed")
        of_values = len(following) - 48 * (len(numbers) - 1)
        for number in numbers:
            size = of_values if number == last else 48
            piece, following = following[:size], following[size:]
            assert len(piece) == size and header["commitments"][number] == commitment(piece)
            assert components.setdefault(number, piece) == piece
        assert not following
    arithmetic = header["arithmetic"]
    payloads = [components[number][16:] for number in range(len(files))]
    streams = [*(keystream(seed, len(payloads[last])) for seed in payloads[:last]), payloads[last]]
    columns = zip(*(elements(arithmetic, stream) for stream in streams), strict=True)
    return [reduce(partial(combined, arithmetic), values) for values in columns]


DECLARED = {"groups": ["a", "ß"], "labels": ["0", "1"], "max_count": 10}
POLICY = {"tasks": ["weights", "count"], "epsilon": "3/2", "delta": "1/1073741824", "unit": "record"}
ONE = {"parties": 3, "clients": 1, "records": 0, "record_domain": DECLARED, "policy": None}
TWO = {"parties": 4, "clients": 2, "records": 0, "record_domain": DECLARED, "policy": POLICY}
RANGE = {"low": -0.1, "high": 2.5, "steps": 10}
VALUES = {"cap": 1, "groups": ["a", "b"], "labels": [], "max_count": 1, "values": RANGE}
OF_CLIENTS = {**ONE, "parties": 2, "record_domain": VALUES, "policy": {**POLICY, "unit": "client"}}
KEYS = {**ONE, "records": 2, "record_domain": {**DECLARED, "thresholds": 11}}
SOUND: list[tuple[str, dict[str, Any], list[int]]] = [
    ("one client, three parties", {**ONE, "form": "split", "arithmetic": "ring64"}, [3, 0, 1, 2]),
    (
        "a field, a policy",
        {**ONE, "policy": POLICY, "form": "split", "arithmetic": "field127"},
        [0, 0, 10, 0],
    ),
    ("two clients, four parties", {**TWO, "form": "product", "arithmetic": "ring64"}, [1, 0, 3, 0, 1, 2]),
    ("slots, two parties, a range", {**OF_CLIENTS, "form": "slots", "arithmetic": "xor64"}, [9]),
    ("a key for each record", {**KEYS, "form": "keys", "arithmetic": "ring64"}, [7, 21]),
    (
        "replicated, three parties, a policy",
        {**ONE, "policy": POLICY, "form": "split", "arithmetic": "ring64", "copies": 2},
        [3, 0, 1, 2],
    ),
    (
        "replicated slots, four parties",
        {**OF_CLIENTS, "parties": 4, "form": "slots", "arithmetic": "ring64", "copies": 3},
        [9],
    ),
]


def vectors() -> dict[str, Any]:
    """Return the vectors: uploads with what they open to, and files with why a party refuses them."""
    sound = [(name, made(values, fields, i), values) for i, (name, fields, values) in enumerate(SOUND)]
    first, following = sound[1][1][0]
    header = json.loads(first)
    policy = header["policy"]
    other = made([1, 0, 9, 0], SOUND[1][1], 99)[0][1]
    flipped = bytes([following[0] ^ 1]) + following[1:], following[:-1] + bytes([following[-1] ^ 128])
    few, more = header["commitments"][:2], [*header["commitments"], header["commitments"][0]]
    bound = {**header, "commitments": few}
    several, both = sound[5][1][0]
    one_less = json.loads(several)
    one_less.pop("copies")
    of_version_1 = {name: value for name, value in header.items() if name not in ("commitments", "policy")}
    of_version_1["schema"] = 1
    early = line({**of_version_1, "batch": "0" * 32, "copies": 2})

    def edited(**changes: Any) -> str:
        return line({**header, **changes})

    bad: list[tuple[str, str, str, bytes]] = [
        ("wrong salt", "changed", first, flipped[0]),
        ("changed payload", "changed", first, flipped[1]),
        ("another upload's salt and payload", "changed", first, other),
        ("identity edited", "changed", edited(batch="0" * 64), following),
        ("identity of version 1", "changed", edited(batch="0" * 32), following),
        ("clients edited", "changed", edited(clients=2), following),
        ("domain edited", "changed", edited(record_domain={**DECLARED, "max_count": 9}), following),
        ("policy taken away", "changed", edited(policy=None), following),
        ("larger total", "changed", edited(policy=policy | {"epsilon": "20"}), following),
        ("another order", "changed", edited(commitments=more[:0:-1]), following),
        ("a commitment too few", "unreadable", line({**bound, "batch": identity(bound)}), following),
        ("a commitment too many", "unreadable", edited(commitments=more), following),
        ("short file", "size", first, following[:-1]),
        ("without salt", "size", first, following[16:]),
        ("long file", "size", first, following + b"\0"),
        ("unknown key", "unreadable", edited(more=1), following),
        ("unknown key in the policy", "unreadable", edited(policy=policy | {"more": 1}), following),
        ("policy without a unit", "unreadable", edited(policy=policy | {"unit": "person"}), following),
        ("epsilon as a number", "unreadable", edited(policy=policy | {"epsilon": 1.5}), following),
        ("epsilon with a point", "unreadable", edited(policy=policy | {"epsilon": "1.5"}), following),
        ("a key twice", "unreadable", first.replace("{", '{"schema": 2, ', 1), following),
        ("a later version", "unreadable", edited(schema=3), following),
        ("an earlier version", "unreadable", edited(schema=1), following),
        ("for party 1", "misdirected", edited(party=1), following),
        ("version 1 with an identity of version 2", "unreadable", line(of_version_1), following[16:]),
        ("replicated of version 1", "unreadable", early, both),
        ("replicated, first salt", "changed", several, bytes([both[0] ^ 1]) + both[1:]),
        ("replicated, first seed", "changed", several, both[:47] + bytes([both[47] ^ 1]) + both[48:]),
        ("replicated, second salt", "changed", several, both[:48] + bytes([both[48] ^ 1]) + both[49:]),
        ("replicated, values", "changed", several, both[:-1] + bytes([both[-1] ^ 128])),
        ("replicated, in another order", "changed", several, both[48:] + both[:48]),
        ("replicated, another upload's first share", "changed", several, following + both[48:]),
        ("replicated, one share", "size", several, both[48:]),
        ("replicated, said to be additive", "misdirected", line(one_less), both),
        ("replicated at all parties", "unreadable", line({**one_less, "copies": 3}), both),
    ]  # fmt: skip
    return {
        "specification": "docs/reference/share-files.md",
        "sound": [
            {"name": name, "opened": values, "files": [{"line": a, "following": b.hex()} for a, b in files]}
            for name, files, values in sound
        ],
        "bad": [
            {"name": name, "refused": why, "party": 0, "line": a, "following": b.hex()}
            for name, why, a, b in bad
        ],
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
