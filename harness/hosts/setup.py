"""The acts of a host's owner: to make its keys, accept other parties' certificates, and write its policy.

`./inv hosts.setup` starts this by a login that may run any command.
"""

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import to_builtins

from fairshares.harness.errors import CertificateError, OptionError, named
from fairshares.harness.hosts import host_keys, policy, wire
from fairshares.harness.hosts.agent import connected
from fairshares.harness.hosts.frames import Role
from fairshares.harness.hosts.host_log import Event, HostLog
from fairshares.harness.hosts.messages import TO_SETUP, Answering, GetSuccessors, Pin, SetUp
from fairshares.harness.system.documents import SMALL, Refusal, as_type, read_json
from fairshares.harness.system.files import write_whole
from fairshares.harness.uploads.signatures import Signed

SCHEMA = 1


class Setup(wire.Answers):
    """One host's set-up; whoever can start it may ask anything."""

    role = Role.SETUP
    known = TO_SETUP

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = HostLog(directory, coordinator="")

    @property
    def handlers(self) -> dict[str, Answering]:
        handlers: list[Answering] = [
            SetUp.answered_by(self.set_up),
            GetSuccessors.answered_by(self.successors),
            Pin.answered_by(self.pin),
        ]
        return {handler.name: handler for handler in handlers}

    def note(self, event: Event, request: str | None, said: str) -> None:
        """Write into the host's log, once this is a host's directory."""
        if (self._directory / policy.POLICY_FILE).exists():
            self._log.write(event, request, said)

    def set_up(self, message: SetUp) -> dict[str, str]:
        """Make this host's directory, keys and policy, if need be; return its certificates by engine.

        An existing policy changes only if the message has a text of a policy. The message's ports are for a
        new policy, and its models for a new policy that has no such text.

        Raises:
            HostUnfitError: Others could replace the host's keys, or the keys are another party's.
            PolicyError: The policy is invalid.
        """
        policy.check_models(message.models)
        had_policy = (self._directory / policy.POLICY_FILE).exists()
        certificates = host_keys.make_keys(self._directory, message.party, renew=message.renew)
        is_written = message.policy_text is not None or not had_policy
        if is_written:
            text = message.policy_text
            if text is None:  # and there is no policy yet
                text = policy.first_policy(message.models)
            policy.write_policy(self._directory, text, message.port, message.client_port)
        keys = "Keys were renewed" if message.renew and had_policy else "Keys are there"
        rules = "the policy was written" if is_written else "the policy is as it was"
        self.note(Event.CHANGED, SetUp.name(), f"{keys}; {rules}.")
        return certificates

    def successors(self, message: GetSuccessors) -> dict[str, list[Signed]]:
        """Return by engine what this host's old keys signed of their successors."""
        return host_keys.own_successors(self._directory, message.party)

    def pin(self, message: Pin) -> None:
        """Accept other parties' certificates, by engine, with their successors. Raises as `host_keys.pin`."""
        host_keys.pin(
            self._directory,
            message.party,
            {name: host_keys.by_party(texts) for name, texts in message.certificates.items()},
            {name: host_keys.by_party(signed) for name, signed in message.successors.items()},
        )
        self.note(Event.CHANGED, Pin.name(), "Certificates of all parties were accepted.")


@dataclass(frozen=True)
class Exported:
    """A host's certificates by engine, as its owner sends them to other hosts' owners."""

    party: int
    certificates: dict[str, str]
    successors: dict[str, list[Signed]] = field(default_factory=dict)


def exported(directory: Path, party: int) -> Path:
    """Return the file in which a host's owner finds its certificates, to send them to other hosts' owners."""
    return directory / f"party-{party}.certificates"


def read_exported(path: Path) -> Exported:
    """Return the certificates in another host's file, or raise CertificateError."""
    refusal = Refusal(CertificateError, str(path), "a host's certificates", "ask its owner for them again")
    return as_type(Exported, read_json(path, refusal, SCHEMA, SMALL), refusal)


def set_up_here(
    directory: Path,
    party: int,
    *,
    renew: bool,
    policy_text: str | None,
    others: Sequence[Path],
    models: Sequence[str],
    lost: Collection[int] = (),
) -> dict[str, dict[int, str]]:
    """Set up this machine as a host; return all certificates, by engine and party.

    Args:
        directory: The host's own directory.
        party: The host's party.
        renew: Whether the host makes new keys in any case.
        policy_text: A new policy. Without such a text, a policy that exists stays.
        others: Files of other hosts' certificates.
        models: The names of the models that a new policy accepts, if there is no `policy_text`.
        lost: The parties whose owners lost their keys.

    Raises:
        CertificateError: A certificate cannot be trusted, or is no successor of the one that the host holds.
        HostUnfitError: Others could replace the host's keys, or the keys are another party's.
        PolicyError: The policy is invalid.
        OptionError: A party lost its key, and none of the files is of that party.
    """
    host = Setup(directory)
    exports = [read_exported(path) for path in others]
    without_file = sorted(set(lost) - {export.party for export in exports})
    if without_file:
        raise OptionError(
            f"{named('lost')} says that party {without_file[0]} lost its key; name the file of its new "
            f"certificates by {named('pin')}."
        )
    own = host.set_up(
        SetUp(
            party=party,
            renew=renew,
            policy_text=policy_text,
            models=list(models),
            port=policy.DEFAULT_PORT,
        )
    )
    _write_exported(directory, party, own)
    for export in exports:
        (other,) = host_keys.by_party({str(export.party): export})  # refuses what is no party
        host_keys.pin(
            directory,
            party,
            {name: {other: text} for name, text in export.certificates.items()},
            {name: {other: signed} for name, signed in export.successors.items()},
            lost,
        )
        why = ", as it lost its key" if other in lost else ""
        said = f"Certificates of party {other} were accepted{why}."
        host.note(Event.CHANGED, Pin.name(), said)
    accepted = host_keys.pinned(directory)
    return {name: {party: text, **accepted[name]} for name, text in own.items()}


def _write_exported(directory: Path, party: int, certificates: dict[str, str]) -> None:
    """Write the file for other owners; version 1.0 reads it unless keys were renewed."""
    fields = {"schema": SCHEMA, "party": party, "certificates": certificates}
    successors = host_keys.own_successors(directory, party)
    if any(successors.values()):
        fields["successors"] = to_builtins(successors)
    write_whole(exported(directory, party), json.dumps(fields).encode())


def main(arguments: list[str]) -> None:
    """Serve a host's owner, whose host's directory is the argument."""
    with connected() as connection:
        connection.serve(Setup(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
