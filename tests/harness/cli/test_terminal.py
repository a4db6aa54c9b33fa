"""What a command says of a step that takes long."""

import pytest

from harness.cli import terminal
from harness.system.progress import part, tell


class Clock:
    """Stands for the time: it goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_log_says_how_far_a_step_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing before two seconds, then a line every few seconds at most, with the time that is left."""
    clock = Clock()
    monkeypatch.setattr(terminal, "time", clock)
    with terminal.steps({"share": "[share]"}) as begin:
        begin("share")
        for clock.now, done in ((1.9, 10), (5.5, 11), (6, 12), (10, 20), (11, 22)):
            tell(done, 40)
        clock.now = 17
        begin.tell_log()
        for number in range(2):
            with part(number, 2):
                clock.now += 6
                tell(1, 10)
        clock.now = 40
        begin("soon")
        clock.now = 41.9
        tell(1, 2)
        clock.now = 46
        begin.tell_log()
    tell(1, 2)  # nobody listens
    assert capsys.readouterr().err.splitlines() == [
        "[share]: 11 of 40, about 14 s left, 6 s so far",
        "[share]: 22 of 40, about 9 s left, 11 s so far",
        "[share]: 22 of 40, about 9 s left, 17 s so far",
        "[share]: 1 of 20, about 437 s left, 23 s so far",
        "[share]: 11 of 20, about 24 s left, 29 s so far",
        "[share]: 40.00 s",
        "soon: running, 6 s so far",
        "soon: 6.00 s",
    ]


@pytest.mark.parametrize("output", [terminal.Output(json=True), terminal.Output(quiet=True)])
def test_no_progress_where_none_is_wanted(
    output: terminal.Output, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.ending_well(output), terminal.steps({}) as begin:
        begin("share")
        begin.detail("half")
        begin.tell_log()
    assert capsys.readouterr().err == ""
