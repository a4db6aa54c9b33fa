"""One interrupt ends a command; none comes between it and its cleaning up."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fairshares.harness.system.signals import INTERRUPTS, take_interrupts, uninterrupted


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Have the command's handlers, and give back those of the tests."""
    previous = {number: signal.signal(number, signal.SIG_DFL) for number in INTERRUPTS}
    take_interrupts()
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("second", INTERRUPTS)
@pytest.mark.parametrize("first", INTERRUPTS)
def test_the_first_interrupts_and_those_after_it_do_not(first: int, second: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(first)
    signal.raise_signal(second)


@pytest.mark.parametrize("number", INTERRUPTS)
def test_an_interrupt_waits_for_the_cleaning_up(number: int) -> None:
    done = []

    def clean_up() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(number)
                done.append("inner")
            signal.raise_signal(number)
            done.append("outer")
        done.append("after")

    with pytest.raises(KeyboardInterrupt):
        clean_up()
    assert done == ["inner", "outer"]
    signal.raise_signal(number)


def test_an_interrupt_meanwhile_does_not_hide_an_error() -> None:
    def fail() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            raise ValueError

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__context__, ValueError)


def test_what_was_ignored_stays_so() -> None:
    """As under nohup, or in the background of a script."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    take_interrupts()
    signal.raise_signal(signal.SIGHUP)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_a_command_that_has_begun_nothing_ends_at_once_and_says_so() -> None:
    program = (
        "import signal; from fairshares.harness.cli.app import Commands\n"
        "Commands.run = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "Commands().run_to_the_end(['inv'])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "\nInterrupted: nothing was begun.\n")
