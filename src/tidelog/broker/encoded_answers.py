"""Answers that are the same for every client as long as the image is: encoded once.

Describing all topics of a large cluster takes long; a client that asks for it again and again would
keep the node from its other clients.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from tidelog.metadata.image import Image
from tidelog.wire.requests import EncodedBody, RequestHeader, encode_body

_MOST = 32
"""Answers kept: a few versions of a few APIs. One may have megabytes."""


class EncodedAnswers:
    """By API, version and whatever else the answer depends on besides the image."""

    def __init__(self) -> None:
        self._image: Image | None = None
        self._answers: dict[Hashable, EncodedBody] = {}

    def answer(
        self, image: Image, header: RequestHeader, depends_on: Hashable, make: Callable[[], Any]
    ) -> EncodedBody:
        """The answer to the request of `header`, which `make` gives if it is not there."""
        found = self.find(image, header, depends_on)
        if found is None:
            found = encode_body(header, make())
            self.keep(image, header, depends_on, found)
        return found

    def find(self, image: Image, header: RequestHeader, depends_on: Hashable) -> EncodedBody | None:
        if image is not self._image:
            return None
        return self._answers.get((header.api_key, header.api_version, depends_on))

    def keep(
        self, image: Image, header: RequestHeader, depends_on: Hashable, answer: EncodedBody
    ) -> None:
        """Those of other images are forgotten."""
        if image is not self._image or len(self._answers) >= _MOST:
            self._image = image
            self._answers.clear()
        self._answers[header.api_key, header.api_version, depends_on] = answer
