"""`send`."""

from fairshares.harness.cli.options import SendOptions
from fairshares.harness.cli.terminal import announce, plain, say
from fairshares.harness.pipeline.sending import nothing_sent, read_asked, send_values
from fairshares.harness.privacy.ledger.charge import chosen_account
from fairshares.harness.uploads.signatures import read_fingerprints
from fairshares.harness.views import ledger as ledger_view, sending as view


def send(options: SendOptions) -> None:
    """Send one client's values to the running parties."""
    known = read_fingerprints(options.fingerprints) if options.fingerprints else None
    asked = read_asked(options.invitation)
    invitation = asked.invitation
    certificates = asked.certificates(known)
    for sentence in view.terms(asked.terms.request, asked.terms.attempts):
        say(plain(sentence))  # before anything is sent
    for sentence in view.parties(invitation.servers, certificates):
        say(plain(sentence))
    asked.check_accepted(options.epsilon, options.delta)
    records = asked.read(options.records, announce)
    with nothing_sent():
        account = chosen_account(options.population, options.budget, options.ledger, announce)
    sent = send_values(asked, records, account, options.timeout, announce)
    say(plain(ledger_view.charge(sent.charging, asked_for_none=True)))
    parties = len(invitation.servers)
    say(
        f"Client {invitation.client}: all {parties} parties have its values, masked, on these terms "
        f"({sent.sent_bytes:,} bytes to each)."
    )
