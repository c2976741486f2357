"""Each client speaks only what was advertised to it, old and new encodings alike."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import kafka
import pytest
from kafka.protocol.broker_version_data import BrokerVersionData
from tests.compat.clients.everyone import CLIENTS
from tests.compat.clients.message import Client, Message
from tests.support.node_process import StartNode
from tests.support.proxy import FETCH, PRODUCE, Call, proxied_node

from tidelog.broker.apis.versions import SERVED


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_speaks_only_what_is_advertised(
    start_node: StartNode, tmp_path: Path, client: Client
) -> None:
    with proxied_node(start_node, tmp_path / "data") as (_, proxy):
        client.write(proxy.bootstrap, "topic", [Message(b"value", b"key")])
        client.read(proxy.bootstrap, "topic", 1)
        calls = list(proxy.calls)
    assert [call for call in calls if not SERVED[call.api_key].has_version(call.version)] == []
    assert {PRODUCE, FETCH} <= {call.api_key for call in calls}


RELEASES = {25: (4, 0), 27: (4, 1), 29: (4, 2), 30: (4, 3)}
"""Kafka's releases by the `metadata.version` that each begins new clusters with."""


def test_the_release_that_kafka_python_infers_is_the_one_that_the_feature_levels_name(
    bootstrap: str,
) -> None:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        (broker,) = admin.describe_cluster()["brokers"]
        told = admin.get_broker_version_data(broker["broker_id"])
        (level, highest) = admin.describe_features()["metadata.version"]["finalized"]
    assert told.broker_version == RELEASES[level] == (4, 3)
    assert level == highest
    assert told.api_versions == {
        key: (row.min_version, row.max_version) for key, row in SERVED.items() if row.is_advertised
    }
    of_release = BrokerVersionData(RELEASES[level]).api_versions
    assert {key: of_release.get(key) for key in told.api_versions} == told.api_versions


@pytest.mark.parametrize("version", [(0, 11), (1, 0), (2, 0), (2, 4), (3, 0)], ids=str)
def test_kafka_python_pinned_to_an_old_release_works(
    start_node: StartNode, tmp_path: Path, version: tuple[int, int]
) -> None:
    client = CLIENTS[2]
    options = {"api_version": version}
    with proxied_node(start_node, tmp_path / "data") as (_, proxy):
        client.write(
            proxy.bootstrap,
            "topic",
            [Message(b"value", b"key")],
            options={**options, "enable_idempotence": False},
        )
        assert client.read(proxy.bootstrap, "topic", 1, options=options)[0].value == b"value"
        assert Call(PRODUCE, 9) not in proxy.calls or version >= (2, 8)
