"""Requests that wait for another node's word, when this one stops."""

from __future__ import annotations

from pathlib import Path

from tests.support.node_driver import NodeDriver

from tidelog.broker.effects import CloseConnection, Stop
from tidelog.broker.events import StopRequested
from tidelog.broker.forwarding import ForwardWait
from tidelog.wire.requests import RequestHeader


def test_who_waits_for_another_node_is_sent_away_when_this_one_stops(tmp_path: Path) -> None:
    driver = NodeDriver(tmp_path)
    connections = driver.node._connections
    connection = connections.by_id.get(driver.connection)
    assert connection is not None
    slot = connections.take_slot(connection, RequestHeader(19, 5, 1), [])
    driver.node.state.pending.park_on_reply(slot, ForwardWait("CreateTopicsRequest"))
    driver.step(StopRequested())
    assert [effect.connection for effect in driver.effects_of(CloseConnection)] == [
        driver.connection
    ]
    assert driver.effects_of(Stop) == [Stop()]
