"""Compares the heads of hosts' ledgers, by what the hosts signed before a run."""

from collections.abc import Collection, Mapping

from fairshares.harness.errors import HostUnfitError, named, named_call, named_command
from fairshares.harness.hosts.signed_results import Intent

_SHOWN = 12  # characters of a piece's name


def seen_of(party: int, said: Mapping[int, Intent]) -> dict[int, str]:
    """Return the heads that others signed to have seen of a party's ledger, by the party that signed.

    Args:
        party: The party of the ledger.
        said: The statement that each host signed before the run, by party.
    """
    seen: dict[int, str] = {}
    for other, intent in said.items():
        head = intent.seen.get(str(party))
        if other != party and head:
            seen[other] = head
    return seen


def compare_heads(said: Mapping[int, Intent]) -> None:
    """Raise HostUnfitError unless each ledger has had all heads that any host has seen of it.

    The coordinator compares before its own ledger is charged. So a run of a host that was restored is charged
    nowhere. Each host compares once more before its party begins, as a coordinator need not.

    A host may lie about what it has seen, and a coordinator may not ask for it. So nothing is destroyed,
    and only the word of two hosts names the command by which an owner says that a ledger was restored.

    Guarantees: noise made ahead at a host that was restored from a backup, or copied, is not used again.
    A host that lies costs at most the piece that this run has taken.
    [test: tests/harness/hosts/test_preparation.py, tests/harness/hosts/test_restored_hosts.py]

    Args:
        said: The statement that each host signed before the run, by party.
    """
    for party, intent in said.items():
        lost = {other: head for other, head in seen_of(party, said).items() if head not in intent.had}
        if not {*lost.values()} <= {*intent.lacks}:
            raise HostUnfitError(
                f"The host of party {party} was not asked for a head that {_named(lost)} signed to have "
                f"seen of its ledger: whoever starts this run, or {_named(lost)}, said something else "
                "before; start it again."
            )
        if lost:
            raise HostUnfitError(_contradiction(party, lost))


def lost_piece(who: str, piece: str | None) -> str:
    """Return a sentence on the piece of noise that a refused run has taken, "" for a run without one.

    Args:
        who: The hosts that had taken it, as the sentence names them: "it", or "the hosts".
        piece: The name of the piece, None for none.
    """
    if piece is None:
        return ""
    return f" The noise made ahead that {who} had taken, piece {piece[:_SHOWN]}, was removed."


def _contradiction(party: int, lost: Mapping[int, str]) -> str:
    """Say who has seen a head that a party's ledger never had, and what its owner should do.

    Args:
        party: The party of the ledger.
        lost: The head that each of some parties has seen, by party.
    """
    heads = sorted({*lost.values()})
    who = _named(lost)
    if len(lost) > 1:
        return (
            f"The ledger of party {party} does not go on from what {who} have seen of it: it was restored "
            "from a backup, or copied. Its owner compares its runs with theirs, and goes on by "
            f"{named_call('hosts.restored', seen=','.join(heads))}."
        )
    return (
        f"The ledger of party {party} does not go on from what {who} says to have seen of it ({heads[0]}). "
        f"Either it was restored from a backup or copied, or {who} says so falsely, and no other party bears "
        f"that out: the owners of both compare their runs, by {named_command('ledger')} with their hosts' "
        f"ledger.sqlite as {named('ledger')}, before anything else, as the page on owning a host in the "
        "documentation says."
    )


def _named(parties: Collection[int]) -> str:
    return " and ".join(f"party {party}" for party in sorted(parties))
