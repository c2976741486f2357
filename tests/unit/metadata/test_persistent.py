"""Mappings and sets whose changed copies share what did not change."""

from __future__ import annotations

from random import Random

import pytest

from tidelog.metadata.persistent import FEWEST_BUCKETS, PersistentMap, PersistentSet


@pytest.mark.parametrize("seed", range(8))
def test_a_map_is_a_dictionary_in_every_version(seed: int) -> None:
    random = Random(seed)
    versions: list[tuple[PersistentMap[str, int], dict[str, int]]] = [(PersistentMap(), {})]
    for number in range(120):
        shared, facts = random.choice(versions)
        copy, facts = shared.copy(), dict(facts)
        for _ in range(random.randrange(40)):
            key = f"k{random.randrange(600)}"
            if key in facts and random.random() < 0.4:
                del copy[key]
                del facts[key]
            else:
                copy[key] = facts[key] = number
        copy.freeze()
        versions.append((copy, facts))
    for shared, facts in versions:
        assert list(shared.items()) == list(facts.items())
        assert shared == facts
        assert len(shared) == len(facts)
        assert all((f"k{n}" in shared) == (f"k{n}" in facts) for n in range(600))
        assert all(shared.get(f"k{n}", -1) == facts.get(f"k{n}", -1) for n in range(600))
        ranks = [shared.rank(key) for key in facts]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize("seed", range(4))
def test_a_set_is_a_set_in_every_version(seed: int) -> None:
    random = Random(seed)
    before: PersistentSet[int] = PersistentSet()
    before.freeze()
    facts: set[int] = set()
    for _ in range(60):
        after, expected = before.copy(), set(facts)
        for key in random.sample(range(900), 30):
            if key in expected:
                after.remove(key)
                expected.remove(key)
            else:
                after.add(key)
                expected.add(key)
        after.freeze()
        assert set(before) == facts
        assert set(after) == expected
        assert len(after) == len(expected)
        before, facts = after, expected


def test_what_is_frozen_does_not_change() -> None:
    frozen = PersistentMap({"a": 1})
    with pytest.raises(AssertionError):
        frozen["b"] = 2
    with pytest.raises(AssertionError):
        del frozen["a"]
    with pytest.raises(KeyError):
        frozen["b"]


@pytest.mark.parametrize("size", [100, 1_000, 10_000, 100_000])
def test_a_change_copies_the_square_root_of_the_size(size: int) -> None:
    before = PersistentMap((f"topic-{number:06}", number) for number in range(size))
    after = before.copy()
    after["topic-000007"] = -1
    after.freeze()
    pairs = list(zip(before._buckets, after._buckets, strict=True))
    copied = [len(mine) for mine, theirs in pairs if mine is not theirs]
    assert len(copied) == 1
    root = max(FEWEST_BUCKETS, size**0.5)
    assert len(pairs) <= 4 * root
    assert copied[0] <= 6 * root
