"""BrokerRegistration (62), versions 0-4: a broker enters the cluster and gets its epoch (KIP-631).

- v1 (KIP-866): migration from ZooKeeper, which never happens here. v2 (KIP-858): its directories.
  v3 (KIP-966): the epoch before its clean shutdown. v4 (KIP-1022): features from version 0.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.wire.schema import (
    array,
    boolean,
    error_code,
    int16,
    int32,
    int64,
    message,
    string,
    uint16,
    uuid,
)


@message
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@message
class Feature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean(versions="1+", default=False)
    log_dirs: list[UUID] = array("uuid", versions="2+", default_factory=list)
    previous_broker_epoch: int = int64(versions="3+", default=-1)


@message(api_key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: ErrorCode = error_code(default=ErrorCode.NONE)
    broker_epoch: int = int64(default=-1)
