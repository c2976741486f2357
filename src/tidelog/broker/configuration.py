"""What a node is told at its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.model.ids import NodeId
from tidelog.model.settings import NodeSettings, Value, node_settings


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """`host` and `port` are where clients reach the node, `listen_host` is what it has bound, if
    that is another. `data_dir` is the absolute path of its directory. `topic_defaults` are the
    settings it was given: those of topics are what topics have unless they say otherwise."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None = None
    settings: NodeSettings = field(default_factory=node_settings)
    topic_defaults: Mapping[str, Value] = field(default_factory=dict)
    listen_host: str = ""
    data_dir: str = "/"

    @property
    def is_member(self) -> bool:
        """Of a cluster; else the node is alone, and its own controller."""
        settings = self.settings
        return self.uses_zookeeper or bool(
            settings.controller_quorum_voters or settings.controller_quorum_bootstrap_servers
        )

    @property
    def uses_zookeeper(self) -> bool:
        return self.settings.consensus == "zookeeper"
