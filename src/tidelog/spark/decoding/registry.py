"""Schemas by the id in a record's frame: from a mapping, or from a directory of files.

A directory holds one file per schema, named by its id: `7.avsc`, `7.json` for Avro; `7.desc` (what
`protoc --include_imports --descriptor_set_out` writes) for Protobuf. It is read on the driver and
travels with the job, so that executors need no access to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.spark.errors import PipelineError

Registry = Mapping[int, Any] | str | Path
"""As people give it."""


def avro_schemas(registry: Registry) -> dict[int, Any]:
    """Id to Avro schema, parsed as JSON."""
    found = {}
    for number, schema in _given(registry, ("avsc", "json")).items():
        text = schema.decode() if isinstance(schema, bytes) else schema
        try:
            found[number] = json.loads(text) if isinstance(text, str) else text
        except ValueError as error:
            raise PipelineError(f"schema {number} of the registry is not JSON: {error}") from None
    return found


def descriptor_sets(registry: Registry) -> dict[int, bytes]:
    """Id to serialized descriptor set."""
    return {number: bytes(data) for number, data in _given(registry, ("desc", "pb")).items()}


def _given(registry: Registry, suffixes: tuple[str, ...]) -> dict[int, Any]:
    if isinstance(registry, Mapping):
        return dict(registry)
    directory = Path(registry)
    if not directory.is_dir():
        raise PipelineError(f"there is no registry directory {directory}")
    found = {
        int(path.stem): path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.stem.isdecimal() and path.suffix.lstrip(".") in suffixes
    }
    if not found:
        endings = " or ".join(f"7.{suffix}" for suffix in suffixes)
        raise PipelineError(f"no schema in {directory}: files are named by id, such as {endings}")
    return found
