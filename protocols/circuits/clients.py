"""Masked values that clients send to running parties, so that no active party can change them.

A virtual machine's only client is its party's front (`harness/online/gateway.py`).
"""

from __future__ import annotations

CHECKS = 40  # a changed mask passes with probability 2^-40, whichever client it is tried on
MOST_CHECKS = 64  # subsets that a word of a client's seed chooses
DIGEST_WORDS = 4  # words of 64 bits: SHA-256


def checks(parts: int) -> int:
    """Return how many random subset sums are compared for each part.

    A changed mask passes each comparison with probability 1/2. A party may try client after client, so that
    more clients need more comparisons.

    Args:
        parts: The number of parts, at least the number of clients.
    Returns:
        The number of sums, with which a change passes with a probability of at most 2^-CHECKS.
    """
    return CHECKS + (parts - 1).bit_length()


def front(listen_for_clients, accept_client_connection, get_cmdline_arg):
    """Wait for the party's own front.

    Later messages go to the connection's number, which is random and known on the party's host only: MP-SPDZ
    accepts clients without a certificate.

    Args:
        listen_for_clients: MP-SPDZ's function of this name.
        accept_client_connection: MP-SPDZ's function of this name.
        get_cmdline_arg: MP-SPDZ's function of this name.
    Returns:
        The connection's number.
    """
    port, number = get_cmdline_arg(0)._v, get_cmdline_arg(1)._v
    listen_for_clients(port)
    accept_client_connection(port)
    return number


def columns_of_clients(
    secret, public, personal, number, check_point, columns: int, clients: int, parts: int, parties: int
):
    """Return clients' values, column by column: what they sent, minus random masks that only they learned.

    Source: masked client input (Damgård, Damgård, Nielsen, Nordholt, Toft, eprint 2015/1006), with subset
    sums in place of products, which are unsound modulo 2^64.
    Computes: clients choose subsets of the masks r. The parties check and open the subsets' sums plus random
    offsets. A client compares these with its masks, and only then sends its values plus r. A client counts as
    0 if parties hold different data of it. Each of `parts` equal runs of values is checked on its own.
    Guarantees: if a party alters what clients learn of r modulo 2^64, each of these clients notices, but for
    2^-CHECKS.
    [test: tests/harness/online/test_masks.py]
    No client, whatever it does, ends the run or has parties compute on different numbers.
    [test: tests/commands/test_clients.py]
    Reveals: digests of what clients sent to all parties; subset sums, uniform by their offsets; to each
    client its own masks and offsets.

    Args:
        secret: MP-SPDZ's sint.
        public: MP-SPDZ's cint.
        personal: MP-SPDZ's personal.
        number: The number of the front's connection, as from `front`.
        check_point: MP-SPDZ's function that ends the run if a share was tampered with.
        columns: The number of columns, a value of each client in each.
        clients: The number of clients.
        parts: The number of equal runs into which the values are divided for their check.
        parties: The number of parties.
    Returns:
        The secret values, shape (columns * clients,), the client fastest.
    """
    size = columns * clients
    words = DIGEST_WORDS * parts
    masks = secret.get_random(size=size)
    offsets = secret.get_random(size=checks(parts) * parts)
    secret.write_shares_to_socket(number, [masks])
    secret.write_shares_to_socket(number, [offsets])
    compare_at_fronts(secret, public, personal, number, check_point, parties, words)
    subsets = public.read_from_socket(number, size=size).bit_decompose(checks(parts))
    sums = secret.concat([part_sums(masks * chosen, parts) for chosen in subsets]) + offsets
    opened = sums.reveal()
    check_point()  # no client may be told a sum that a party tampered with
    opened.write_to_socket(number, [opened])
    compare_at_fronts(secret, public, personal, number, check_point, parties, words)
    masked = public.read_from_socket(number, size=size)
    present = public.read_from_socket(number, size=size)  # 0 for a client that is left out, else 1
    values = (masked - masks) * present
    return values.concat([values.get_vector(j, clients, columns) for j in range(columns)])


def compare_at_fronts(secret, public, personal, number, check_point, parties: int, words: int):
    """Show every front the words of all fronts, party by party.

    Guarantees: all honest parties see the same; nobody chooses its own after it saw another's.
    [test: tests/programs/test_check_before_opening.py]

    Args:
        secret: MP-SPDZ's sint.
        public: MP-SPDZ's cint.
        personal: MP-SPDZ's personal.
        number: The number of the front's connection, as from `front`.
        check_point: MP-SPDZ's function that ends the run if a share was tampered with.
        parties: The number of parties.
        words: The number of integers of 64 bits that each front sends.
    """
    own = public.read_from_socket(number, size=words)
    opened = secret.concat([secret(personal(i, own)) for i in range(parties)]).reveal()
    check_point()  # else a party could show different fronts different words
    opened.write_to_socket(number, [opened])


def part_sums(values, parts: int):
    """Add up each of several equal runs of values.

    Args:
        values: A vector; its length is a multiple of `parts`.
        parts: The number of runs.
    Returns:
        A vector of the sums, shape (parts,).
    """
    size = len(values) // parts
    if parts < size:
        return values.concat([values.get_vector(k * size, size).sum() for k in range(parts)])
    return sum(values.get_vector(j, parts, size) for j in range(size))
