"""The cluster's identity, as Kafka's tools know them."""

from __future__ import annotations

import base64
from random import Random

from tidelog.controller.nodes import decide_cluster_identity
from tidelog.metadata.image import Image
from tidelog.metadata.records import ClusterRecord


def test_a_new_cluster_gets_an_id_of_kafkas_form() -> None:
    ids = [decide_cluster_identity(Image(), Random(seed)).response for seed in range(300)]
    assert len(set(ids)) == len(ids)
    for cluster_id in ids:
        assert len(base64.urlsafe_b64decode(cluster_id + "==")) == 16
        assert len(cluster_id) == 22
        assert not cluster_id.startswith("-")


def test_a_cluster_keeps_the_id_it_has() -> None:
    image, _ = Image().replay([ClusterRecord(cluster_id="8f1c2a52-5f3e-4b6c-8a44-0d8a1c1d9b11")])
    decision = decide_cluster_identity(image, Random(1))
    assert (decision.records, decision.response) == ([], image.cluster_id)
