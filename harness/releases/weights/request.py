"""The options of a run of `weights`."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import Earlier, ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, Options, optional, usual
from fairshares.harness.request.readers import (
    OneOf,
    Whole,
    in_module,
    parse_input_path,
    parse_names,
    parse_path,
    parse_population,
)
from fairshares.harness.request.releases import Invited, ReleaseCall, form_help
from fairshares.harness.request.request import (
    AT_REST_HELP,
    BesideTraining,
    Inputs,
    Protect,
    Randomness,
    Request,
)
from fairshares.harness.reweighing.names import DEFAULT, weighting_names

_, *_OTHERS = weighting_names()


class InputsOfChains(Inputs):
    """How clients' values reach the parties, and the chain of runs that counts each upload once."""

    chain = optional(
        parse_population,
        "a name of your choice, with --shares or --hosts: runs that have it count new uploads each, and "
        "spend ε once together, if clients share each record once",
    ).but(of_runs=True)


class WeightsRequest(Request):
    """Compute DP sample weights per group and label (π_RW)."""

    task = "weights"
    protocols: ClassVar = {"counts": "pi_rw"}
    slots = "pi_rw_slots"
    online = True
    beside_training = BesideTraining.WEIGHING

    protect = OptionGroup(Protect)
    randomness = OptionGroup(Randomness)
    inputs = OptionGroup(
        InputsOfChains,
        input_form={"help": form_help("counts per group and label", "group indicator times label counts")},
        input_path={
            "parse": parse_input_path,
            "help": f"{AT_REST_HELP}; or clients: each sends during the run. By the last two active models "
            "take product, too",
        },
    )
    reweighing = usual(
        DEFAULT,
        OneOf(weighting_names),
        f"{DEFAULT} (default), {', '.join(_OTHERS[:-1])} or {_OTHERS[-1]}; all from the same noisy counts",
    )

    @property
    def chain_name(self) -> str | None:
        return self.inputs.chain


class WeightsCall(ReleaseCall):
    """A call of `weights`, which may be a run of a chain."""

    request = OptionGroup(WeightsRequest)

    def check_source(self, *, clients_send: bool) -> None:
        if self.request.inputs.chain and (self.source.records or clients_send):
            raise OptionError(
                f"{named('chain')} counts each upload once, and knows uploads alone: it goes with "
                f"{named('shares')}, or with hosts that have some."
            )


class InvitationOptions(Options):
    """Clients that are invited to send during the run."""

    invite = optional(
        parse_path,
        "instead of --records: a new directory for the clients' invitations, by which each sends "
        "during the run (needs MP-SPDZ)",
    ).but(of_runs=True)
    clients = optional(
        Whole(1, in_module("fairshares.harness.online.session:MAX_CONNECTIONS")),
        "how many clients are invited",
    ).but(of_runs=True)


class RunsOfAChain(Earlier):
    """Earlier runs of a chain, whose counts are added up."""

    add = optional(
        parse_names,
        "instead of --records: the directories of runs of one --chain, as runs/a,runs/b; adds up what "
        "they counted, for no ε",
    )
    fingerprints = optional(
        parse_path,
        "with --add: a file with the SHA-256 of each host's certificate, a line each, from the hosts' "
        "owners, party 0 first; the certificates of keys that they made later follow",
    )

    @classmethod
    def check_given(cls, names: Collection[str]) -> None:
        if "fingerprints" in names and "add" not in names:
            raise OptionError(f"{named('fingerprints')} goes with {named('add')}, whose runs hosts signed.")


class WeightsOptions(ReleaseOptions):
    """The options of `weights`."""

    call = OptionGroup(WeightsCall, epsilon={"unless": "add"})
    invitations = OptionGroup(InvitationOptions)
    earlier = OptionGroup(RunsOfAChain)

    def invited(self) -> Invited | None:
        directory = self.invitations.invite
        clients = self.invitations.clients
        if directory is None and clients is None:
            return None
        if directory is None or clients is None:
            raise OptionError(f"{named('invite')} and {named('clients')} (how many) go together.")
        return Invited(directory, clients, "invite")
