"""The lines about consumer groups: joining one, committing offsets, keeping many members alive."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tidelog.bench.admin import Admin, WrongAnswer, expect_none
from tidelog.bench.figures import Outcome, median
from tidelog.bench.frames import SINGLE
from tidelog.bench.jobs import PaceJob, PumpJob
from tidelog.bench.lines import Bench
from tidelog.bench.load import run_apart
from tidelog.bench.measure import Topic
from tidelog.bench.membership import (
    HEARTBEAT_VERSION,
    OFFSET_COMMIT_VERSION,
    Member,
    await_coordinator,
    commit_frames,
    commit_once,
    heartbeat_frames,
    join_together,
    seconds_to_first_record,
)
from tidelog.bench.proc import rss_bytes
from tidelog.bench.samples import SampleKey, metrics_of
from tidelog.bench.servers import Kind, Server
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.requests import decode_response

COMMIT_CONNECTIONS, COMMITS_IN_FLIGHT = 4, 25
GROUP_MEMBERS = 100
HEARTBEAT_SECONDS = 3
"""How often a member sends one: the default of Kafka's clients."""

_OFFSETS_TOPIC = "__consumer_offsets"
_DISTINCT_OFFSETS = 100
_DESCRIBE_GROUPS_VERSION = 4
_HEARTBEAT_KEY, _OFFSET_COMMIT_KEY = 12, 8
_NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}


def groups(bench: Bench) -> None:
    """Only joining is measured on a node that already runs: the others look at its process."""
    for kind in bench.fleet.brokers:
        _join(bench, kind, "groups.join", {})
    if bench.fleet.is_external:
        return
    _join(bench, "node", "groups.join.at_once", _NO_DELAY)
    _commits(bench)
    _idle(bench)


def _join(bench: Bench, kind: Kind, line: str, settings: dict[str, str]) -> None:
    """The first group of a server is not counted: it has the offsets topic created."""
    with (
        bench.fleet.server(kind, settings=settings) as server,
        bench.measure.topic(server) as topic,
        Admin(server.host, server.port) as admin,
    ):
        bench.measure.produce(topic, SINGLE, requests=1, connections=1)
        seconds = [
            seconds_to_first_record(admin, f"bench-{os.getpid()}-{number}", topic.name)
            for number in range(bench.scale.joins + 1)
        ]
    milliseconds = median(seconds[1:]) * 1e3
    bench.samples.add(SampleKey(line, kind, "raw"), {"milliseconds": milliseconds})
    bench.say(f"{line}: {kind}")


def _commits(bench: Bench) -> None:
    """The offsets topic must grow by one record for each commit that was acknowledged."""
    for _ in range(bench.scale.rounds):
        with (
            bench.topic("node", is_flushed=True, is_heavy=False) as topic,
            Admin(topic.server.host, topic.server.port) as admin,
        ):
            group = "bench"
            await_coordinator(admin, group)
            commit_once(admin, group, topic.name)
            partitions = admin.partitions_of(_OFFSETS_TOPIC)
            before = admin.records_in(_OFFSETS_TOPIC, partitions)
            outcome = run_apart([_commit_job(bench, topic, group)])[0]
            added = admin.records_in(_OFFSETS_TOPIC, partitions) - before
            _expect_commits(outcome, added)
            _keep_commits(bench, topic.server, outcome)


def _commit_job(bench: Bench, topic: Topic, group: str) -> PumpJob:
    frames = commit_frames(group, topic.name, offsets=range(_DISTINCT_OFFSETS))
    return PumpJob(
        host=topic.server.host,
        port=topic.server.port,
        server_pid=topic.server.pid,
        seconds=bench.scale.seconds,
        frames_path=bench.measure.written("commits", frames),
        connections=COMMIT_CONNECTIONS,
        in_flight=COMMITS_IN_FLIGHT,
        records_per_request=1,
        bytes_per_request=0,
    )


def _expect_commits(outcome: Outcome, added: int) -> None:
    view = memoryview(outcome.first_response)
    answer = decode_response(_OFFSET_COMMIT_KEY, OFFSET_COMMIT_VERSION, view)[1]
    expect_none(answer.topics[0].partitions[0].error_code, "committing")
    if added != outcome.total_records:
        raise WrongAnswer(f"{outcome.total_records} commits were acknowledged, {added} written")


def _keep_commits(bench: Bench, server: Server, outcome: Outcome) -> None:
    metrics = metrics_of(outcome, has_cpu=True)
    metrics["cpu_s_per_100k"] = outcome.server_cpu_seconds / max(outcome.requests, 1) * 1e5
    bench.samples.add(SampleKey("groups.commits", server.kind, "raw"), metrics)
    bench.say(f"groups.commits: {server.kind}")


def _idle(bench: Bench) -> None:
    """Groups of a hundred, every member with a heartbeat each three seconds and nothing else."""
    count = bench.scale.idle_members
    with (
        bench.topic("node", is_heavy=False) as topic,
        Admin(topic.server.host, topic.server.port) as admin,
    ):
        server = topic.server
        await_coordinator(admin, "bench")
        before = rss_bytes(server.pid)
        members = _fill_groups(admin, topic.name, count)
        outcome = run_apart([_heartbeat_job(bench, server, members)])[0]
        _expect_members(admin, outcome, members)
        after = rss_bytes(server.pid)
    metrics = metrics_of(outcome, has_cpu=True)
    metrics["cpu_percent"] = outcome.server_busy * 100
    metrics["rss_mb"] = after / 1e6
    metrics["kb_per_member"] = (after - before) / count / 1e3
    line = f"groups.idle.{count}"
    bench.samples.add(SampleKey(line, "node", "raw"), metrics)
    bench.say(f"{line}: node")


def _fill_groups(admin: Admin, topic: str, count: int) -> list[Member]:
    members: list[Member] = []
    for number in range(count // GROUP_MEMBERS):
        members += join_together(admin, f"bench-{number}", topic, members=GROUP_MEMBERS)
    return members


def _heartbeat_job(bench: Bench, server: Server, members: Sequence[Member]) -> PaceJob:
    """Each member's turn comes at least once, at even distances."""
    return PaceJob(
        host=server.host,
        port=server.port,
        server_pid=server.pid,
        seconds=max(bench.scale.seconds, HEARTBEAT_SECONDS),
        frames_path=bench.measure.written("heartbeats", heartbeat_frames(members)),
        rate=len(members) // HEARTBEAT_SECONDS,
    )


def _expect_members(admin: Admin, outcome: Outcome, members: Sequence[Member]) -> None:
    view = memoryview(outcome.first_response)
    answer = decode_response(_HEARTBEAT_KEY, HEARTBEAT_VERSION, view)[1]
    expect_none(answer.error_code, "a heartbeat")
    names = list(dict.fromkeys(member.group for member in members))
    described = admin.ask(DescribeGroupsRequest(groups=names), _DESCRIBE_GROUPS_VERSION).groups
    found = sum(len(group.members) for group in described if group.group_state == "Stable")
    if found != len(members):
        raise WrongAnswer(f"{len(members)} members joined, {found} are left")
