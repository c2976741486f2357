"""How long a quorum waits for what. All on the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The names and defaults are Kafka's (`controller.quorum.…`) where Kafka has them."""

    election_timeout_ms: int = 1_000
    """Without a leader, a voter asks for votes after this long, and up to as long again."""

    election_backoff_max_ms: int = 1_000
    """A candidate that has lost waits up to this long."""

    fetch_timeout_ms: int = 2_000
    """A follower without an answer for this long gives its leader up; a leader without fetches of a
    majority for this long resigns."""

    request_timeout_ms: int = 2_000
    """An answer that has not come by then does not come."""

    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    """A leader with nothing new keeps a fetch this long. Both timeouts above are longer by far."""

    fetch_max_bytes: int = 8 << 20
    snapshot_piece_bytes: int = 1 << 20
    voter_change_timeout_ms: int = 30_000
    """RemoveRaftVoter has no timeout of its own."""

    def __post_init__(self) -> None:
        patience_ms = min(self.fetch_timeout_ms, self.request_timeout_ms)
        assert self.fetch_max_wait_ms * 2 <= patience_ms, "fetches would time out waiting"
