"""The keys of sftp servers that a store is reached by; needs the package `paramiko`, of an extra."""

from pathlib import Path

from paramiko import HostKeys, MissingHostKeyPolicy, PKey, SSHClient, SSHException


class KnownKeysOnly(MissingHostKeyPolicy):  # type: ignore[misc]  # it has no type information
    """The rule that a server's key is in `~/.ssh/known_hosts`; fsspec's own accepts any key.

    [test: tests/harness/uploads/test_stores.py]
    """

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002
        """Raise SSHException for a key that is not known."""
        file = Path.home() / ".ssh" / "known_hosts"
        if not (file.exists() and HostKeys(str(file)).check(hostname, key)):
            raise SSHException(f"its {key.get_name()} key is not in {file}, to which `ssh` adds it")
