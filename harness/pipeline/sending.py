"""A client's part in a run during which clients send: what it is asked for, and its values, once charged."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.errors import FairSharesError, LedgerError, OptionError, ShareError, named
from fairshares.harness.inputs.encoding import as_upload, columns_of
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.harness.online.client import Invitation, read_invitation
from fairshares.harness.pipeline.sources import ClientTerms, read_terms
from fairshares.harness.privacy.ledger.charge import Account, Entry
from fairshares.harness.privacy.ledger.populations import NOTHING_COMPUTED, PrivacyEvent, Status
from fairshares.harness.request.fields import as_text
from fairshares.harness.system.progress import Say
from fairshares.protocols.accounting.rounding import digits_up
from fairshares.protocols.arrays import Integers


@dataclass(frozen=True)
class AskedClient:
    """The request of an invitation to a client.

    Attributes:
        path: The invitation's file.
        invitation: The client's number, key and parties.
        terms: The terms with which the client is to agree.
    """

    path: Path
    invitation: Invitation
    terms: ClientTerms

    @property
    def event(self) -> PrivacyEvent:
        """The charge of the client's own ledger: runs on these terms spend at most this."""
        request = self.terms.request
        return PrivacyEvent(
            request.task,
            request.model.title,
            request.protect.guarantee,
            request.protect.privacy_unit,
            self.terms.relation,
            self.path,
        )

    def certificates(self, known: Sequence[str] | None) -> list[str]:
        """Return the SHA-256 of the parties' certificates.

        Raises ShareError if they are no certificates, or others than the known ones, if there are any.
        """
        try:
            found = [fingerprint(server.owner.encode()) for server in self.invitation.servers]
        except ValueError:
            raise ShareError(f"{self.path} holds something else than parties' certificates.") from None
        if known is not None and found != list(known):
            raise ShareError(
                f"The parties in {self.path} have other certificates than {named('fingerprints')} names, in "
                "the order of the parties; nothing was sent. Ask the owners of their hosts, not whoever sent "
                "the invitation."
            )
        return found

    def check_accepted(self, epsilon: Fraction | None, delta: Fraction | None) -> None:
        """Raise OptionError if the run spends more than a client accepts; None accepts anything."""
        protect = self.terms.request.protect
        _check_accepted("epsilon", "ε", protect.epsilon, epsilon)
        _check_accepted("delta", "δ", protect.delta, delta)

    def read(self, path: Path, say: Say) -> ClientRecords:
        """Return the client's records in a file; OptionError if it holds other clients' too, or none."""
        records = read_records(path, self.terms.domain, say=say)
        if records.clients != 1:
            raise OptionError(f"{path} holds records of {records.clients} clients; an invitation is for one.")
        return records


def read_asked(path: Path) -> AskedClient:
    """Return the request of the invitation in a file. Raises as `read_invitation` and `read_terms`."""
    invitation = read_invitation(path)
    return AskedClient(path, invitation, read_terms(invitation.terms, str(path)))


@dataclass(frozen=True)
class Sent:
    """The upload that a client has sent.

    Attributes:
        charging: The client's entry in its own ledger.
        sent_bytes: The bytes to each party.
    """

    charging: Entry
    sent_bytes: int


def send_values(
    asked: AskedClient, records: ClientRecords, account: Account, seconds: float, say: Say
) -> Sent:
    """Send a client's values, masked, to all parties, once its masks are checked and its ledger is charged.

    Raises FairSharesError: the ledger does not allow it, or the parties do not answer as they should.
    """
    charging = Entry(account)
    with nothing_sent():
        charging.check(asked.event)  # early, as parties wait for a client that has its masks
    form = asked.terms.request.form
    values = columns_of(as_upload(records, form, say), form).ravel()
    sent_bytes = asyncio.run(_sent(asked, values, seconds, charging))
    with suppress(LedgerError):  # the charge stays, shown as aborted
        charging.settle(Status.DONE, account.ledger.timeout_s)
    return Sent(charging, sent_bytes)


async def _sent(asked: AskedClient, values: Integers, seconds: float, charging: Entry) -> int:
    """Send a client's values once its masks are checked, and the event is charged; return the bytes sent."""
    async with asked.invitation.ready_to_send(values, seconds) as ready:
        with nothing_sent():
            charged = charging.charge(asked.event, ready)
        return await ready.send(charged)


@contextmanager
def nothing_sent() -> Iterator[None]:
    """Say of errors in the block that nothing was sent, in place of that nothing was computed."""
    try:
        yield
    except FairSharesError as error:
        message, _, _ = str(error).partition(NOTHING_COMPUTED)
        error.args = (f"{message.strip()} Nothing was sent.",)
        raise


def _check_accepted(name: str, letter: str, spent: Fraction, most: Fraction | None) -> None:
    """Refuse a run that spends more than the client accepts by the option `name`; None is no limit."""
    if most is not None and spent > most:
        raise OptionError(
            f"This run spends {letter} = {digits_up(spent, 4)}, and {named(name, as_text(most))} is "
            "the most that you accept; nothing was sent."
        )
