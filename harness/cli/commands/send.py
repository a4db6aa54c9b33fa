"""`send`."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction

from fairshares.harness.cli.commands.choices import read_fingerprints
from fairshares.harness.cli.options import SendOptions
from fairshares.harness.cli.terminal import announce, plain, say
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.errors import FairSharesError, LedgerError, OptionError, ShareError, named
from fairshares.harness.inputs.encoding import as_upload, columns_of
from fairshares.harness.inputs.records import read_records
from fairshares.harness.online.client import Invitation, read_invitation
from fairshares.harness.online.session import Server
from fairshares.harness.pipeline.sources import read_terms
from fairshares.harness.privacy.ledger.charge import Entry, chosen_account
from fairshares.harness.privacy.ledger.populations import NOTHING_COMPUTED, PrivacyEvent, Status
from fairshares.harness.privacy.statement import DISTRIBUTED, MADE_AHEAD, SHIFTED, who_learns_nothing
from fairshares.harness.request.base import Request
from fairshares.harness.request.fields import as_text
from fairshares.harness.views import ledger as ledger_view
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.arrays import Integers
from fairshares.protocols.circuits.clients import CHECKS

_CHANGES = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record of yours added or removed",
    NeighboringRelation.REPLACE_ONE: "one record of yours replaced by another",
    NeighboringRelation.ZERO_OUT_ONE: "all records of yours together, there or not",
}


def send(options: SendOptions) -> None:
    """Send one client's values to the running parties."""
    known = read_fingerprints(options.fingerprints) if options.fingerprints else None
    invited = read_invitation(options.invitation)
    invitation = str(options.invitation)
    request, domain = read_terms(invited.terms, invitation)
    form = request.form
    protect = request.protect
    assert protect.neighboring_relation is not None  # else the terms would have been refused
    attempts = invited.terms["attempts"]
    assert isinstance(attempts, int)  # likewise
    sentences = [*_sentences(request, attempts), *_servers(invited.servers, invitation, known)]
    for sentence in sentences:
        say(plain(sentence))  # before anything is sent
    _check_accepted("epsilon", "ε", protect.epsilon, options.epsilon)
    _check_accepted("delta", "δ", protect.delta, options.delta)
    records = read_records(options.records, domain, say=announce)
    if records.clients != 1:
        raise OptionError(
            f"{options.records} holds records of {records.clients} clients; an invitation is for one."
        )
    event = PrivacyEvent(
        request.task,
        request.model.name,
        protect.guarantee,  # runs on these terms spend at most this
        protect.privacy_unit,
        protect.neighboring_relation,
        options.invitation,
    )
    with _nothing_sent():
        account = chosen_account(options.population, options.budget, options.ledger, announce)
        charging = Entry(account)
        charging.check(event)  # early, as parties wait for a client that has its masks

    values = columns_of(as_upload(records, form, announce), form).ravel()
    sent = asyncio.run(_sent(invited, values, options.timeout, charging, event))
    with suppress(LedgerError):  # the charge stays, shown as aborted
        charging.settle(Status.DONE, account.ledger.timeout_s)
    say(plain(ledger_view.charge(charging, asked_for_none=True)))
    say(
        f"Client {invited.client}: all {len(invited.servers)} parties have its values, masked, on these "
        f"terms ({sent:,} bytes to each)."
    )


async def _sent(
    invited: Invitation,
    values: Integers,
    seconds: float,
    charging: Entry,
    event: PrivacyEvent,
) -> int:
    """Send a client's values once its masks are checked, and the event is charged; return the bytes sent."""
    async with invited.ready_to_send(values, seconds) as ready:
        with _nothing_sent():
            charged = charging.charge(event, ready)
        return await ready.send(charged)


def _check_accepted(name: str, letter: str, spent: Fraction, most: Fraction | None) -> None:
    """Refuse a run that spends more than the client accepts by the option `name`; None is no limit."""
    if most is not None and spent > most:
        raise OptionError(
            f"This run spends {letter} = {digits_up(spent, 4)}, and {named(name, as_text(most))} is "
            "the most that you accept; nothing was sent."
        )


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """Say of errors in the block that nothing was sent, in place of that nothing was computed."""
    try:
        yield
    except FairSharesError as error:
        message, _, _ = str(error).partition(NOTHING_COMPUTED)
        error.args = (f"{message.strip()} Nothing was sent.",)
        raise


def _sentences(request: Request, attempts: int = 0) -> list[str]:
    """Return sentences on a run's terms; `attempts` says how often making its noise ahead was begun."""
    model = request.model
    distribution = request.randomness.distribution
    protect = request.protect
    relation = protect.neighboring_relation
    assert relation is not None  # else the terms would have been refused
    learns = who_learns_nothing(model, distribution is not None)
    if model.tolerates == "active":
        learns += f", or changes a value unnoticed, but for a probability of 2^-{CHECKS} each"
    sentences = [
        f"The run reveals: {'; '.join(request.spec.revealed)}. Guarantee: (ε, δ)-differential privacy with ε "
        f"= {digits_up(protect.epsilon, 4)} and δ = {digits_up(protect.delta, 4)} in total, for "
        f"{_CHANGES[relation]}.",
        f"Computation: {model.parties} parties, model {model.name}: {learns}. Whoever runs more than "
        f"{model.corruptions} of them can see your values.",
    ]
    if distribution:
        sentences.append(
            DISTRIBUTED.format(
                distribution=distribution,
                honest_parties=model.parties - model.corruptions,
                parties=model.parties,
                shifted=SHIFTED,
            )
        )
    if attempts:
        sentences.append(
            f"{MADE_AHEAD} Making it was begun {attempts} times, each of which could fail unnoticed as the "
            f"run can: the engine's chance to fail counts {attempts + 1} times."
        )
    if model.replicated:
        sentences.append(
            "What you send is with the parties while they run only. Values that were shared before, by "
            f"share --input-path replicated, any {model.corruptions + 1} of them can read together while "
            "they wait."
        )
    return sentences


def _servers(servers: Sequence[Server], invitation: str, known: Sequence[str] | None) -> list[str]:
    """Return a sentence on each party's server; refuse certificates other than the known ones, if any."""
    try:
        fingerprints = [fingerprint(server.owner.encode()) for server in servers]
    except ValueError:
        raise ShareError(f"{invitation} holds something else than parties' certificates.") from None
    if known is not None and fingerprints != list(known):
        raise ShareError(
            f"The parties in {invitation} have other certificates than --fingerprints names, in the order of "
            "the parties; nothing was sent. Ask the owners of their hosts, not whoever sent the invitation."
        )
    return [
        f"Party {party}: {server.host}:{server.port}, SHA-256 of its certificate {sha256}."
        for party, (server, sha256) in enumerate(zip(servers, fingerprints, strict=True))
    ]
