"""An answer is remembered for a while and no longer."""

from __future__ import annotations

from framework.testbeds.host.lately import Lately
from framework.testing.clock import VirtualClock


def test_an_answer_is_remembered_for_a_while() -> None:
    clock, asked = VirtualClock(), []

    def find() -> int:
        asked.append(clock.monotonic())
        return len(asked)

    lately = Lately(find, 5.0, clock.monotonic)
    assert [lately(), lately()] == [1, 1]
    clock.sleep(4.9)
    assert lately() == 1
    clock.sleep(0.2)
    assert [lately(), lately()] == [2, 2]
