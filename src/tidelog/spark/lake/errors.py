"""What can be wrong with a lake, each in one sentence for the user."""

from __future__ import annotations

from tidelog.spark.errors import PipelineError


class LakeError(PipelineError):
    """The message is a sentence for the user, complete in itself."""


class NoLake(LakeError):
    """There is no such table."""


class LakeInUse(LakeError):
    """Somebody else writes to it."""


class OtherTopic(LakeError):
    """The lake is of another topic, or of an earlier topic of the same name."""


class LostRecords(LakeError):
    """The log has deleted records that were not archived yet."""


class DiskFull(LakeError):
    """There is no room; nothing of the batch became visible."""


class TaskFailed(LakeError):
    """A task said why it could not do its part; the batch was given up."""
