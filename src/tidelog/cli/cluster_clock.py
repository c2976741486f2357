"""`tidelog cluster confirm-clock`: the clock is right, so age-based deletion may go on."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tidelog.cli.options import AsJson, Bootstrap
from tidelog.cli.output import emit_json, people
from tidelog.client import Connection
from tidelog.client.cluster_admin import ClusterAdmin
from tidelog.client.connection import DEFAULT_BOOTSTRAP


def confirm_clock(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Say that this machine's clock is right. Nodes whose clock shows the same believe theirs.

    After a start of a node, and after a jump of its wall clock, age-based deletion is paused there
    until the clock has been steady for clock.steady.ms. This ends that wait on every node whose
    clock is within a minute of this machine's; on the others, set the clock first.
    """
    wall_ms = int(time.time() * 1000)
    ClusterAdmin(Connection(bootstrap)).confirm_clock(wall_ms)
    if as_json:
        emit_json({"confirmed_ms": wall_ms})
        return
    shown = datetime.fromtimestamp(wall_ms // 1000, UTC)
    people().print(
        f"confirmed: it is {shown:%Y-%m-%d %H:%M:%S} UTC; nodes whose clock is within a minute of "
        "that delete by age again"
    )
