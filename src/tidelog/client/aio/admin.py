"""Asking and changing what the cluster knows, from an event loop.

Each question is `tidelog.Admin`'s, asked in a thread: rare enough not to need one of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from tidelog.client import admin as threaded
from tidelog.client.admin import BROKER_DEFAULT, Offsets, Topic, TopicSetting
from tidelog.client.connection import Bootstrap
from tidelog.client.group_admin import Group
from tidelog.model.ids import TopicPartition

Answer = TypeVar("Answer")


class Admin:
    """::

    async with Admin() as admin:
        await admin.create_topic("orders", partitions=3)
    """

    def __init__(self, bootstrap: Bootstrap = None) -> None:
        self._bootstrap = bootstrap
        self._threaded: threaded.Admin | None = None

    async def __aenter__(self) -> Self:
        await self._admin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._threaded = None

    async def topics(self) -> list[Topic]:
        return await self._ask(threaded.Admin.topics)

    async def topic(self, name: str) -> Topic:
        return await self._ask(threaded.Admin.topic, name)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        admin = await self._admin()
        await asyncio.to_thread(
            admin.create_topic,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            settings=settings,
        )

    async def delete_topic(self, name: str) -> None:
        await self._ask(threaded.Admin.delete_topic, name)

    async def add_partitions(self, name: str, *, total: int) -> None:
        admin = await self._admin()
        await asyncio.to_thread(admin.add_partitions, name, total=total)

    async def settings(self, topic: str) -> dict[str, TopicSetting]:
        return await self._ask(threaded.Admin.settings, topic)

    async def alter_settings(self, topic: str, changes: Mapping[str, str | None]) -> None:
        await self._ask(threaded.Admin.alter_settings, topic, changes)

    async def group_settings(self, group: str) -> dict[str, TopicSetting]:
        return await self._ask(threaded.Admin.group_settings, group)

    async def alter_group_settings(self, group: str, changes: Mapping[str, str | None]) -> None:
        await self._ask(threaded.Admin.alter_group_settings, group, changes)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        return await self._ask(threaded.Admin.delete_records, before)

    async def offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offsets]:
        return await self._ask(threaded.Admin.offsets, list(partitions))

    async def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int]:
        return await self._ask(threaded.Admin.offsets_at, list(partitions), timestamp_ms)

    async def groups(self) -> list[Group]:
        return await self._ask(threaded.Admin.groups)

    async def group(self, name: str) -> Group:
        return await self._ask(threaded.Admin.group, name)

    async def committed(self, group: str) -> dict[TopicPartition, int]:
        return await self._ask(threaded.Admin.committed, group)

    async def set_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        await self._ask(threaded.Admin.set_committed, group, offsets)

    async def delete_group(self, name: str) -> None:
        await self._ask(threaded.Admin.delete_group, name)

    async def _admin(self) -> threaded.Admin:
        if self._threaded is None:
            self._threaded = await asyncio.to_thread(threaded.Admin, self._bootstrap)
        return self._threaded

    async def _ask(self, question: Callable[..., Answer], *arguments: object) -> Answer:
        return await asyncio.to_thread(question, await self._admin(), *arguments)
