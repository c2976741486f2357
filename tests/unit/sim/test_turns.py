"""Which events a simulated node receives before it settles."""

from __future__ import annotations

from random import Random

from tidelog.broker.events import Event, StopRequested, Tick
from tidelog.sim.schedule import Schedule
from tidelog.sim.turns import Turns, draw_turn_events


class Bench:
    def __init__(self, most_events: int) -> None:
        self.taken: list[list[Event]] = []
        self.schedule = Schedule()
        self.turns = Turns(
            self.schedule, Random(7), most_events=most_events, take=self.taken.append
        )

    def add_every_ms(self, interval_ms: float, count: int) -> None:
        for number in range(count):
            self.schedule.at(number * interval_ms, lambda: self.turns.add(Tick()))
        self.schedule.run(until_ms=1000.0)


def test_turns_of_one_event_do_not_wait() -> None:
    bench = Bench(1)
    bench.turns.add(Tick())
    assert [len(events) for events in bench.taken] == [1]


def test_some_turns_have_several_events_and_none_is_lost() -> None:
    bench = Bench(4)
    bench.add_every_ms(0.1, 200)
    sizes = [len(events) for events in bench.taken]
    assert sum(sizes) == 200
    assert set(sizes) == {1, 2, 3, 4}


def test_an_event_waits_for_others_a_short_time_only() -> None:
    bench = Bench(16)
    bench.add_every_ms(5.0, 20)
    assert [len(events) for events in bench.taken] == [1] * 20


def test_a_request_to_stop_ends_the_turn() -> None:
    bench = Bench(16)
    while not bench.turns._waiting:
        bench.turns.add(Tick())
    bench.turns.add(StopRequested())
    assert isinstance(bench.taken[-1][-1], StopRequested)


def test_what_is_cut_off_is_never_taken() -> None:
    bench = Bench(16)
    while not bench.turns._waiting:
        bench.turns.add(Tick())
    taken = len(bench.taken)
    assert bench.turns.cut() == [Tick()]
    bench.add_every_ms(5.0, 0)
    assert len(bench.taken) == taken


def test_a_good_share_of_the_seeds_settles_after_each_event() -> None:
    drawn = [draw_turn_events(Random(seed)) for seed in range(300)]
    assert 60 <= drawn.count(1) <= 200
    assert max(drawn) > 4
