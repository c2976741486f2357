"""Memory for requests on their way in: bounded, shared by rules, and never stuck."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.runtime.receive_pool import ReceivePool, Room

_MB = 1024 * 1024
_STEP = 256 * 1024
_LARGEST = 100 * _MB


def never() -> None:
    raise AssertionError("it was not refused")


def default_pool() -> ReceivePool:
    return ReceivePool(512 * _MB, largest=_LARGEST)


class Sender:
    """A connection that sends a frame of `size` bytes and asks for room step by step."""

    def __init__(
        self, pool: ReceivePool, size: int, *, owner: str = "host", is_first: bool = False
    ) -> None:
        self.size = size
        self.is_first = is_first
        self.is_waiting = False
        self.room: Room = pool.room(owner, self._on_room)

    def send(self, size: int) -> int:
        """Up to `size` bytes of the frame, as far as there is room."""
        while not self.is_waiting and self.room.held < size:
            self.step()
        return self.room.held

    def step(self) -> None:
        wanted = min(self.size, self.room.held + _STEP)
        self.is_waiting = not self.room.grow(
            wanted, frame_bytes=self.size, is_first_frame=self.is_first
        )

    def finish(self) -> bool:
        """Whether all of it came; then its memory is returned."""
        is_complete = self.send(self.size) == self.size
        if is_complete:
            self.room.shrink(0)
        return is_complete

    def _on_room(self) -> None:
        self.is_waiting = False


def test_what_is_announced_and_not_sent_takes_nothing() -> None:
    pool = default_pool()
    for _ in range(60):
        Sender(pool, _LARGEST).send(_STEP)
    assert pool.free_bytes == 412 * _MB - 60 * _STEP
    assert Sender(pool, 2_700_000).finish()


def test_sixty_half_frames_of_100_mb_leave_room_for_frames_of_a_few() -> None:
    pool = default_pool()
    halves = [Sender(pool, _LARGEST) for _ in range(60)]
    assert any(half.send(50 * _MB) < 50 * _MB for half in halves)
    for _ in range(100):
        assert Sender(pool, 2_700_000).finish()
        assert Sender(pool, 20 * _MB).finish()


def test_first_frames_leave_room_for_connections_that_have_sent_whole_ones() -> None:
    pool = default_pool()
    strangers = [Sender(pool, 2 * _MB, is_first=True) for _ in range(1000)]
    for stranger in strangers:
        stranger.send(_MB)
    assert sum(stranger.is_waiting for stranger in strangers) > 500
    assert Sender(pool, 2_700_000).finish()


def test_one_address_does_not_hold_all_of_it() -> None:
    pool = default_pool()
    greedy = [Sender(pool, 2 * _MB, owner="greedy") for _ in range(1000)]
    for each in greedy:
        each.send(_MB)
    assert any(each.is_waiting for each in greedy)
    for _ in range(20):
        assert Sender(pool, 20 * _MB, owner="other").finish()


def test_one_frame_can_always_be_finished_and_then_the_longest_waiting_one() -> None:
    """All of them want more than there is; each waits for the reserve, and all get done."""
    pool = ReceivePool(10 * _MB, largest=_LARGEST)
    senders = [Sender(pool, _LARGEST) for _ in range(10)]
    done: list[int] = []
    while len(done) < len(senders):
        finished = [number for number, each in enumerate(senders) if each.room.held < each.size]
        before = len(done)
        for number in finished:
            if number not in done and senders[number].finish():
                done.append(number)
        assert len(done) > before, "nobody gets on"
    assert done == sorted(done)


def test_a_connection_that_has_gone_waits_for_nothing_and_holds_nothing() -> None:
    pool = ReceivePool(10 * _MB, largest=10 * _MB)
    holders = [Sender(pool, 10 * _MB) for _ in range(4)]
    for holder in holders:
        holder.send(8 * _MB)
    waiting = [holder for holder in holders if holder.is_waiting]
    assert waiting
    for holder in [*waiting, *holders]:
        holder.room.close()
    assert pool.free_bytes == 5 * _MB
    assert not pool.has_waiting
    assert all(holder.is_waiting for holder in waiting), "nobody calls back who has gone"


def test_a_buffer_that_shrinks_to_what_is_free_of_charge_holds_nothing() -> None:
    pool = default_pool()
    room = pool.room("host", never)
    assert room.grow(_MB, frame_bytes=_MB)
    assert room.grow(_MB // 2, frame_bytes=_MB), "it holds that already"
    room.shrink(0)
    assert pool.free_bytes == 412 * _MB


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sampled_from("ab"), st.booleans(), st.booleans()),
        max_size=60,
    )
)
def test_the_pool_never_gives_more_than_it_has_and_is_whole_at_the_end(
    wishes: list[tuple[int, str, bool, bool]],
) -> None:
    pool = ReceivePool(20 * _MB, largest=10 * _MB)
    senders: list[Sender] = []
    for quarters, owner, is_first, goes in wishes:
        sender = Sender(pool, quarters * _STEP, owner=owner, is_first=is_first)
        senders.append(sender)
        sender.send(sender.size)
        assert 0 <= pool.free_bytes <= 10 * _MB
        assert sum(each.room.borrowed > 0 for each in senders) <= 1
        if goes:
            senders.pop(0).room.close()
    for sender in senders:
        sender.room.close()
    assert pool.free_bytes == 10 * _MB
    assert not pool.has_waiting
