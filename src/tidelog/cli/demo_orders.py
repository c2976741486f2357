"""The orders of the pipeline's demo, and what must come of them. The same at every run.

Of every hundred, one comes twice, two come late and one is broken: no JSON, no city, a price that
is none. `Sent` knows the bytes to send and what a right pipeline makes of them.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tidelog.cli.demo_log import CITIES, GOODS

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
SPAN = timedelta(hours=2)
LATEST = timedelta(minutes=30)
"""How late an order may come; the pipeline waits for an hour."""


class Order(NamedTuple):
    """A good one."""

    number: int
    city: str
    goods: str
    cents: int
    at: datetime

    def document(self) -> dict[str, object]:
        return {
            "order": self.number,
            "city": self.city,
            "goods": self.goods,
            "cents": self.cents,
            "at": self.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }


class Record(NamedTuple):
    """What is sent."""

    key: bytes | None
    value: bytes


@dataclass(slots=True)
class Sent:
    """Everything sent so far, and what it adds up to."""

    good: list[Order] = field(default_factory=list)
    twice: int = 0
    late: int = 0
    broken: int = 0

    @property
    def records(self) -> int:
        return len(self.good) + self.twice + self.broken

    def orders_by_city(self) -> Counter[str]:
        return Counter(order.city for order in self.good)

    def cents_by_city(self) -> Counter[str]:
        cents: Counter[str] = Counter()
        for order in self.good:
            cents[order.city] += order.cents
        return cents

    def closed_minutes(self, delay: timedelta) -> Counter[tuple[datetime, str]]:
        """Revenue by minute and city, of the minutes that can't change any more."""
        watermark = max(order.at for order in self.good) - delay
        cents: Counter[tuple[datetime, str]] = Counter()
        for order in self.good:
            minute = order.at.replace(second=0, microsecond=0)
            if minute + timedelta(minutes=1) <= watermark:
                cents[minute, order.city] += order.cents
        return cents


def first_orders(count: int, sent: Sent) -> list[Record]:
    """Two hours of orders, in the order they come."""
    luck = random.Random(11)
    records: list[Record] = []
    for number in range(count):
        moment = BEGIN + SPAN * number / count
        if number % 100 == 17:
            records.append(_broken(number, luck))
            sent.broken += 1
            continue
        if number % 50 == 33:
            moment = max(BEGIN, moment - LATEST * luck.random())
            sent.late += 1
        order = _order(number, moment, luck)
        sent.good.append(order)
        records.append(_record(order))
        if number % 100 == 71:
            records.append(_record(order))
            sent.twice += 1
    return records


def further_orders(count: int, sent: Sent) -> list[Record]:
    """Those of a quarter of an hour later; all good."""
    luck = random.Random(13)
    first = len(sent.good) + sent.broken
    orders = [
        _order(first + number, BEGIN + SPAN + timedelta(minutes=15), luck)
        for number in range(count)
    ]
    sent.good.extend(orders)
    return [_record(order) for order in orders]


def _order(number: int, moment: datetime, luck: random.Random) -> Order:
    goods, cents = luck.choice(GOODS)
    city = luck.choice(CITIES)
    return Order(number, city, goods, cents * luck.randint(1, 5), moment.replace(microsecond=0))


def _record(order: Order) -> Record:
    return Record(order.city.encode(), json.dumps(order.document()).encode())


def _broken(number: int, luck: random.Random) -> Record:
    whole = _order(number, BEGIN, luck).document()
    kinds = (
        b'{"order": ' + str(number).encode(),
        json.dumps({**whole, "city": None}).encode(),
        json.dumps({**whole, "cents": -1}).encode(),
        json.dumps({**whole, "cents": "a lot"}).encode(),
    )
    return Record(None, kinds[number // 100 % len(kinds)])
