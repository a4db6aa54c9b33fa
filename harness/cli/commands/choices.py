"""Readers of common options."""

import re
from pathlib import Path

from fairshares.harness.cli import terminal as cli
from fairshares.harness.errors import OptionError, cannot, named
from fairshares.harness.hosts.inventory import Host, default_model, hosts_for, read_hosts
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import SMALL
from fairshares.harness.system.files import read_bounded

_FINGERPRINT = re.compile("[0-9A-F]{2}(:[0-9A-F]{2}){31}")


def chosen_hosts(path: Path, model: SecurityModel | None) -> tuple[list[Host], SecurityModel]:
    """Return a run's hosts and its model, which is by default the usual model of so many hosts."""
    hosts = read_hosts(path)
    chosen = model or default_model(hosts)
    if model is None:
        cli.announce(f"Security model: {chosen.name} (choose another with --security)")
    return hosts_for(chosen, hosts, path), chosen


def read_fingerprints(path: Path) -> list[str]:
    """Read fingerprints in OpenSSL's notation, or raise OptionError."""
    try:
        with cannot(f"read {named('fingerprints')} {path}", OptionError, "name a file of fingerprints"):
            lines = read_bounded(path, SMALL.size).decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    fingerprints = [line.rpartition("=")[2].strip().upper() for line in lines if line.strip()]
    are_well_formed = all(_FINGERPRINT.fullmatch(line) for line in fingerprints)
    if not fingerprints or not are_well_formed:
        raise OptionError(
            f"{path} must hold a line for each party, 0 first: the SHA-256 of its certificate, as "
            "openssl x509 -fingerprint -sha256 writes it."
        )
    return fingerprints
