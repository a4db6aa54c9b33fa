"""The command `fairshares`: the part of `./inv` that users have."""

import sys
from io import TextIOWrapper

from invoke import Collection

from fairshares.harness.cli.app import Commands
from fairshares.harness.cli.bootstrap import spelled_out
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS


def main() -> None:
    """Run the command line, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # for letters that the terminal cannot show
    program = Commands(namespace=Collection(*COMMANDS, hosts=HOSTS), name="FairShares", binary="fairshares")
    program.run_to_the_end(["fairshares", *spelled_out(sys.argv[1:])])


if __name__ == "__main__":
    main()
