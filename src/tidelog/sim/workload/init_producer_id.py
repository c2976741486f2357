"""InitProducerId: an identity for an idempotent producer."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidelog.model.errors import ErrorCode
from tidelog.sim.workload.world import World
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API_KEY = 22


@dataclass(slots=True, frozen=True)
class IdentityPlan:
    """From version 3 on a producer may name the identity it had (KIP-360)."""

    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True, frozen=True)
class Identity:
    producer_id: int
    producer_epoch: int
    error: ErrorCode


def sample(random: Random, *, producer_id: int, producer_epoch: int) -> IdentityPlan:
    """A producer that had an identity sometimes says which."""
    if producer_id >= 0 and random.random() < 0.5:
        return IdentityPlan(producer_id, producer_epoch)
    return IdentityPlan()


def build(plan: IdentityPlan) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=60_000,
        producer_id=plan.producer_id,
        producer_epoch=plan.producer_epoch,
    )


def classify(response: InitProducerIdResponse) -> Identity:
    return Identity(response.producer_id, response.producer_epoch, response.error_code)


def predict(world: World, life: int) -> tuple[ErrorCode, ...]:
    """A new block of ids must be recorded: that fails with the disk."""
    excuses = world.write_excuses(life)
    return (ErrorCode.COORDINATOR_NOT_AVAILABLE, *excuses) if excuses else ()
