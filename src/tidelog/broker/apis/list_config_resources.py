"""ListConfigResources: the topics, the nodes, and the groups that were given settings.

Each node is listed once more for its loggers, as Kafka's brokers are; DescribeConfigs tells that a
node has none whose level can be changed. Client metrics, which are all that version 0 asks for, are
not in this release: it lists none.
"""

from __future__ import annotations

from tidelog.broker.config_changes import TOPIC
from tidelog.broker.state import BrokerState, Call
from tidelog.metadata.image import Image
from tidelog.metadata.states import BROKER, BROKER_LOGGER, GROUP
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.list_config_resources import (
    CLIENT_METRICS,
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_LISTED = (TOPIC, BROKER, BROKER_LOGGER, GROUP)
_KNOWN = (*_LISTED, CLIENT_METRICS)


def handle(
    state: BrokerState, call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    if call.slot.header.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = request.resource_types or _LISTED
    if any(kind not in _KNOWN for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _names(state.image, kind)
        ]
    )


def _names(image: Image, kind: int) -> list[str]:
    if kind == TOPIC:
        return list(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(image.nodes)]
    return sorted(each.name for each in image.resource_configs if each.kind == kind)
