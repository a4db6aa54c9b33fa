"""`verify`: what hosts signed of a run or of a training."""

from fractions import Fraction

from fairshares.harness.cli import terminal as cli
from fairshares.harness.cli.options import VerifyOptions
from fairshares.harness.errors import SignatureError
from fairshares.harness.hosts.signed_results import InputSource, verify as verified, what_hosts_ran
from fairshares.harness.hosts.verified_training import VerifiedTraining, is_training, verify_training
from fairshares.harness.system.documents import Refusal, as_json
from fairshares.harness.uploads.signatures import read_fingerprints
from fairshares.harness.views import hosts as view
from fairshares.protocols.guarantee import Guarantee


def verify(options: VerifyOptions) -> None:
    """Check the signatures of a run's results."""
    known = read_fingerprints(options.fingerprints) if options.fingerprints else None
    if is_training(options.results):
        _show_training(verify_training(options.results, known), compared=known is not None)
        return
    signers = verified(options.results, known)
    hosts = [view.Signer(statement.ran.party, text, statement.ended) for statement, text in signers]
    first = signers[0][0]
    epsilon, delta = first.spent
    refusal = Refusal(SignatureError, str(options.results), "what the hosts signed", "fetch it again")
    inputs = first.inputs(refusal)
    ran = what_hosts_ran(first.ran)
    if cli.output.json:
        signed_by = [as_json(host) for host in hosts]
        spent = {"epsilon": epsilon, "delta": delta}
        cli.print_json({"signed_by": signed_by, **spent, **as_json(inputs), **as_json(ran)})
        return
    cli.show(
        *view.signers(
            hosts,
            "{task} in model {security}".format(**first.ran.asked),
            spent=Guarantee(Fraction(epsilon), Fraction(delta)),
            inputs=inputs,
            ran=ran,
            source=InputSource(first.ran.source).described,
            compared=known is not None,
            by_1_0=first.ran.by_1_0,
        )
    )


def _show_training(found: VerifiedTraining, *, compared: bool) -> None:
    """Show a model that follows from the sums that hosts signed."""
    hosts = [
        view.Signer(statement.ran.party, text, statement.ended) for statement, text in found.last.signers
    ]
    loss = found.last.privacy.exact
    if cli.output.json:
        cli.print_json(
            {
                "signed_by": [as_json(host) for host in hosts],
                "epsilon": str(loss.epsilon),
                "delta": str(loss.delta),
                "reveals": sorted(found.reveals),
                "lost": found.lost,
                "clients": found.clients,
                "learning_rate": found.settings.learning_rate,
                "momentum": found.settings.momentum,
            }
        )
        return
    cli.show(
        *view.trained(
            hosts,
            "{task} in model {security}".format(**found.last.first.ran.asked),
            spent=loss,
            ran=what_hosts_ran(found.last.first.ran),
            reveals=len(found.reveals),
            lost=found.lost,
            clients=found.clients,
            settings=found.settings,
            compared=compared,
        )
    )
