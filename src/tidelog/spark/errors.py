"""What a user is told: one exception, one sentence, and no traceback of ours around it.

Spark runs this code in worker processes and prints whatever they raise with its traceback. For an
error that is the user's to solve that is noise, so `plainly()` asks Spark's own switch, at the last
moment, to leave it out. The worker ends with the error, so nothing else is silenced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.model.errors import ErrorCode

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class PipelineError(Exception):
    """The message is a sentence for the user, complete in itself."""


class OptionError(PipelineError):
    """An option is unknown, wrong, or does not fit the others."""


class NoBroker(PipelineError):
    """Nobody answers, or not in time."""


class UnknownTopic(PipelineError):
    """There is no such topic, or none that matches."""


class DataLoss(PipelineError):
    """Records that were to be read are gone; the message names them and the cause."""


class RefusedByBroker(PipelineError):
    """The broker's answer is no, and asking again would not change it."""


class CorruptData(PipelineError):
    """A record batch fails its checksum, is malformed, or decompresses to more than allowed."""


class StaleView(Exception):
    """What was known of the cluster is out of date: look again, and ask again."""


def refusal(subject: str, code: ErrorCode) -> RefusedByBroker:
    """What the broker's `code` means for `subject`."""
    return RefusedByBroker(f"{subject}: {code.explanation} ({code.name})")


@contextmanager
def plainly() -> Iterator[None]:
    """For the methods that Spark calls: a `PipelineError` leaves them without a traceback."""
    try:
        yield
    except PipelineError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
