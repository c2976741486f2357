"""A body made of pieces is byte for byte the body that is encoded at once."""

from __future__ import annotations

import pytest

from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from tidelog.wire.pieces import PiecewiseBody
from tidelog.wire.requests import RequestHeader, encode_body


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("sizes", [(), (0,), (1,), (3, 0, 2), (127, 1), (300, 16_100)], ids=str)
def test_pieces_make_the_same_bytes(version: int, sizes: tuple[int, ...]) -> None:
    header = RequestHeader(16, version, 1)
    body = PiecewiseBody(header, ListGroupsResponse())
    every: list[ListedGroup] = []
    pieces = []
    for size in sizes:
        first = len(every)
        some = [
            ListedGroup(group_id=f"g{first + n}", protocol_type="consumer") for n in range(size)
        ]
        pieces.append(body.piece(ListGroupsResponse(groups=some), size))
        every += some
    assert body.joined(pieces) == encode_body(header, ListGroupsResponse(groups=every))
