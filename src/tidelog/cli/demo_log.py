"""`tidelog demo log`: the log itself, on a real node, in a few seconds.

Orders stream in while the node is killed with -9 and started again; the client goes on by itself.
Then every order is read back and counted: none lost, none twice.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.cli.demo_story import Story, money
from tidelog.cli.failure import CommandFailed
from tidelog.cli.node_process import NodeProcess
from tidelog.cli.output import add_rows, progress, table
from tidelog.client import Admin, Connection, Producer, Reader
from tidelog.client.producer import Deliveries

TOPIC = "orders"
PARTITIONS = 3
CITIES = ("Hamburg", "Lisbon", "Marseille", "Oslo", "Valparaíso")
GOODS = (("rope", 1250), ("anchor", 18900), ("lantern", 4200), ("chart", 2650), ("kettle", 3300))
READ_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Tally:
    """What the orders read back add up to."""

    times_seen: Counter[int] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    cents: Counter[str] = field(default_factory=Counter)

    def add(self, order: dict[str, object]) -> None:
        city = str(order["city"])
        self.times_seen[int(str(order["order"]))] += 1
        self.orders[city] += 1
        self.cents[city] += int(str(order["cents"]))


def run(orders: int, story: Story) -> None:
    """The whole part; `CommandFailed` if an order is lost or there twice."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory,
        NodeProcess(Path(directory) / "data") as node,
    ):
        story.tell(f"a node is ready at {node.bootstrap}")
        connection = Connection(node.bootstrap)
        Admin(connection).create_topic(TOPIC, partitions=PARTITIONS)
        _stream(node, connection, count=orders, story=story)
        tally = _read_back(connection, expected=orders, story=story)
        story.tell(f"{tally.orders.total():,} orders read back")
        node.stop()
        story.tell("the node has stopped")
    _verify(tally, expected=orders)
    _show(tally, story)


def _show(tally: Tally, story: Story) -> None:
    rows = [(city, tally.orders[city], money(tally.cents[city])) for city in CITIES]
    rows.append(("all", tally.orders.total(), money(tally.cents.total())))
    story.show(add_rows(table("City", "#Orders", "#Revenue"), rows))
    story.conclude(
        f"{tally.orders.total():,} orders in, the same out: none lost, none twice, "
        "through a kill -9."
    )


def sample_orders(count: int) -> Iterator[dict[str, object]]:
    """The same orders at every run."""
    luck = random.Random(7)
    for number in range(count):
        goods, cents = luck.choice(GOODS)
        city = luck.choice(CITIES)
        yield {"order": number, "city": city, "goods": goods, "cents": cents * luck.randint(1, 5)}


def _stream(node: NodeProcess, connection: Connection, *, count: int, story: Story) -> None:
    """Send all orders. When a quarter is acknowledged and another on its way, kill the node."""
    producer = Producer(connection)
    deliveries = producer.deliveries
    with progress(console=story.console) as bar:
        task = bar.add_task("streaming orders", total=count)

        def show() -> None:
            bar.update(task, completed=deliveries.acknowledged)

        for number, order in enumerate(sample_orders(count)):
            if number == count // 4:
                producer.flush(on_wait=show)
            if number == count // 2:
                _kill_and_restart(node, story, sent=number, deliveries=deliveries)
            key = str(order["city"]).encode()
            producer.send(TOPIC, json.dumps(order).encode(), key=key)
            show()
        producer.flush(on_wait=show)
    if deliveries.first_error is not None:
        raise CommandFailed(f"{deliveries.failed:,} orders were refused: {deliveries.first_error}")
    story.tell(f"{deliveries.acknowledged:,} orders acknowledged")


def _kill_and_restart(
    node: NodeProcess, story: Story, *, sent: int, deliveries: Deliveries
) -> None:
    node.kill()
    acknowledged = deliveries.acknowledged
    story.tell(
        f"kill -9: {acknowledged:,} orders acknowledged, {sent - acknowledged:,} on their way"
    )
    node.restart()
    story.tell("the node is back; the client goes on by itself")


def _read_back(connection: Connection, *, expected: int, story: Story) -> Tally:
    """Every order in the log, from the beginning to the end."""
    tally = Tally()
    admin = Admin(connection)
    spans = admin.offsets(admin.topic(TOPIC).topic_partitions)
    reader = Reader(connection, starts={each: span.start for each, span in spans.items()})
    deadline = time.monotonic() + READ_TIMEOUT_S
    with progress(console=story.console) as bar:
        task = bar.add_task("reading them back", total=expected)
        while not reader.is_at_end and time.monotonic() < deadline:
            for record in reader.poll():
                tally.add(json.loads(record.value or b""))
            bar.update(task, completed=tally.orders.total())
    reader.close()
    return tally


def _verify(tally: Tally, *, expected: int) -> None:
    lost = [number for number in range(expected) if number not in tally.times_seen]
    twice = [number for number, times in tally.times_seen.items() if times > 1]
    if lost or twice:
        raise CommandFailed(f"{len(lost):,} orders lost, {len(twice):,} seen more than once")
