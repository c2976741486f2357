"""What a request asks of group coordinators, and how it gathers the replies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.groups.coordinator import Coordinator
from tidelog.groups.decision import Decision
from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.shards import Shard

Ask = Callable[[Coordinator, int], Decision]
Refuse = Callable[[ErrorCode], Any]


@dataclass(slots=True)
class Question:
    """One group's part of a request, or one shard's where it names the `partition`. `refuse` makes
    the reply for when nobody can decide it."""

    group_id: str
    ask: Ask
    refuse: Refuse
    partition: int | None = None


class Gathering:
    """The replies to one request's questions, as they come. `number` is that of the request's row
    in `Pending`, if it has to wait."""

    __slots__ = ("_build", "_missing", "_replies", "asked", "number", "questions")

    def __init__(self, questions: list[Question], build: Callable[[list[Any]], Any]) -> None:
        self.questions = questions
        self.number: int | None = None
        self.asked: list[tuple[Shard, int]] = []
        """Who was asked, under which ticket."""
        self._build = build
        self._replies: list[Any] = [None] * len(questions)
        self._missing = len(questions)

    @property
    def is_complete(self) -> bool:
        return self._missing == 0

    def grow(self, question: Question) -> int:
        """One question more; its index."""
        self.questions.append(question)
        self._replies.append(None)
        self._missing += 1
        return len(self._replies) - 1

    def put(self, index: int, reply: Any) -> bool:
        """Whether that was the last."""
        self._replies[index] = reply
        self._missing -= 1
        return self._missing == 0

    def response(self) -> Any:
        return self._build(self._replies)
