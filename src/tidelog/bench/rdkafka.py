"""librdkafka through `ctypes`: the few calls that let C do all per-record work.

The Python binding makes an object per record, which costs more than the broker. The shared object
inside its wheel also has calls for whole batches; those are bound here, in the shape the C header
gives them.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

PRODUCER, CONSUMER = 0, 1
_CONF_OK = 0
_ERROR_BYTES = 512
OFFSET_BEGINNING = -2
EVENT_DELIVERY_REPORT = 0x1


class LibraryMissing(Exception):
    """No librdkafka where the confluent-kafka wheel keeps it."""


class ClientError(Exception):
    """librdkafka refused something; the message is its own."""


class Message(Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("length", c_size_t),
        ("key", c_void_p),
        ("key_length", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


def library_path() -> Path:
    """The shared object that the installed `confluent-kafka` brings with it."""
    for file in importlib.metadata.files("confluent-kafka") or ():
        if file.name.startswith("librdkafka") and ".so" in file.name:
            return Path(str(file.locate()))
    raise LibraryMissing("the installed confluent-kafka brings no librdkafka shared object")


def _preload_neighbours(path: Path) -> None:
    """A wheel keeps the libraries that librdkafka needs beside it, with names only it knows."""
    for neighbour in sorted(path.parent.glob("*.so*")):
        if neighbour != path:
            try:
                ctypes.CDLL(str(neighbour))
            except OSError:
                continue


_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_events": (None, (c_void_p, c_int)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, POINTER(Message), c_int)),
    "rd_kafka_produce": (
        c_int,
        (c_void_p, c_int32, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    ),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_version_str": (c_char_p, ()),
    "rd_kafka_queue_new": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_get_main": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_queue_poll": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_event_type": (c_int, (c_void_p,)),
    "rd_kafka_event_message_next": (POINTER(Message), (c_void_p,)),
    "rd_kafka_event_destroy": (None, (c_void_p,)),
    "rd_kafka_message_latency": (c_int64, (POINTER(Message),)),
    "rd_kafka_consume_start_queue": (c_int, (c_void_p, c_int32, c_int64, c_void_p)),
    "rd_kafka_consume_callback_queue": (c_int, (c_void_p, c_int, c_void_p, c_void_p)),
    "rd_kafka_consume_stop": (c_int, (c_void_p, c_int32)),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_last_error": (c_int, ()),
}


def load_library() -> ctypes.CDLL:
    """librdkafka with every bound call's types declared."""
    path = library_path()
    _preload_neighbours(path)
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


class Client:
    """One `rd_kafka_t` with one topic."""

    def __init__(
        self, kind: int, settings: dict[str, str], *, topic: str, delivery_reports: bool = False
    ) -> None:
        self.library = load_library()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        configuration = self.library.rd_kafka_conf_new()
        for name, value in settings.items():
            answer = self.library.rd_kafka_conf_set(
                configuration, name.encode(), value.encode(), error, _ERROR_BYTES
            )
            if answer != _CONF_OK:
                raise ClientError(error.value.decode())
        if delivery_reports:
            self.library.rd_kafka_conf_set_events(configuration, EVENT_DELIVERY_REPORT)
        self.handle = self.library.rd_kafka_new(kind, configuration, error, _ERROR_BYTES)
        if not self.handle:
            raise ClientError(error.value.decode())
        self.topic = self.library.rd_kafka_topic_new(self.handle, topic.encode(), None)

    def last_error(self) -> str:
        message: bytes = self.library.rd_kafka_err2str(self.library.rd_kafka_last_error())
        return message.decode()

    def close(self) -> None:
        self.library.rd_kafka_topic_destroy(self.topic)
        self.library.rd_kafka_destroy(self.handle)


def version() -> str:
    """librdkafka's own version, for the table's foot."""
    text: bytes = load_library().rd_kafka_version_str()
    return text.decode()
