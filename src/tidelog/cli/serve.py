"""`tidelog serve`: the command line and the configuration file become `ServeOptions`.

Plain argparse, not typer: see `main.py`. The command line wins over the file, the file over the
defaults.
"""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tidelog.model.settings import InvalidSetting, Value, parse_settings
from tidelog.runtime.service import ServeError, ServeOptions, serve
from tidelog.runtime.wall_clock import make_log_record

_DESCRIPTION = """\
Start a node: one process, one data directory. Any Kafka client can use it.

Prints `ready HOST:PORT` on standard output when clients may connect, logs to
standard error, and stops cleanly on SIGTERM or Ctrl-C. The first start creates
the data directory; there is no set-up step.
"""

_EPILOG = """\
examples:
  tidelog serve
  tidelog serve --data-dir /var/lib/tidelog --listen 127.0.0.1:19092
  tidelog serve --set num.partitions=4 --set flush.policy=os
  tidelog serve --config tidelog.toml

a configuration file has the same names (the command line wins):
  data-dir = "/var/lib/tidelog"
  listen = "127.0.0.1:9092"

  [settings]
  num.partitions = 4
"""

_DEFAULTS: Mapping[str, Any] = {
    "data-dir": "tidelog-data",
    "listen": "127.0.0.1:9092",
    "advertise": None,
    "http": "off",
    "node-id": 1,
}
KEPT_CONFIG = "tidelog.toml"
"""The configuration file that a data directory brings along."""

ANYWHERE = ("0.0.0.0", "::")
"""Addresses to listen on that nobody can connect to: clients are sent to the host's name."""

_LARGEST_NODE_ID = 2**31 - 1


class UsageError(Exception):
    """The command line or the configuration file is wrong; the message says how."""


class _Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def run(arguments: list[str]) -> int:
    """Parse, then serve until told to stop. Returns the exit code."""
    try:
        options = parse_options(arguments)
    except (UsageError, InvalidSetting) as error:
        print(f"error: {error} (see `tidelog serve --help`)", file=sys.stderr)
        return 2
    if not _is_loopback(options.host):
        _warn_of_strangers(options)
    logging.setLogRecordFactory(make_log_record)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        return serve(options)
    except ServeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def parse_options(arguments: list[str]) -> ServeOptions:
    """What the command line and its configuration file ask for, or `UsageError`."""
    given = vars(parser().parse_args(arguments))
    from_file = _read_config(given.pop("config"))
    file_settings = _flattened(from_file.pop("settings", {}))
    command_settings = dict(_pair(text) for text in given.pop("set"))
    said = {
        **from_file,
        **{name.replace("_", "-"): value for name, value in given.items() if value is not None},
    }
    kept = _read_kept(Path(said.get("data-dir", _DEFAULTS["data-dir"])))
    kept_settings = _flattened(kept.pop("settings", {}))
    values = {**_DEFAULTS, **kept, **said}
    if values["http"] != "off":
        raise UsageError("--http is not in this release: leave it out, or say --http off")
    host, port = address(values["listen"], name="--listen")
    return ServeOptions(
        data_dir=Path(values["data-dir"]),
        host=host,
        port=port,
        node_id=_node_id(values["node-id"]),
        settings=_settings({**kept_settings, **file_settings, **command_settings}),
        advertised=values["advertise"] or (socket.gethostname() if host in ANYWHERE else None),
    )


def parser() -> argparse.ArgumentParser:
    """All options of `tidelog serve`."""
    made = _Parser(
        prog="tidelog serve",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--data-dir", metavar="DIR", help="where everything is kept (default: ./tidelog-data)")
    add(
        "--listen",
        metavar="HOST:PORT",
        help="where clients connect; port 0 chooses a free one (default: 127.0.0.1:9092)",
    )
    add(
        "--advertise",
        metavar="HOST",
        help="the host clients are sent to (default: the one listened on)",
    )
    add("--http", metavar="HOST:PORT|off", help="the HTTP API: only 'off' in this release")
    add("--node-id", metavar="N", help="this node's id (default: 1)")
    add("--config", metavar="FILE", type=Path, help="a TOML file with these options")
    add(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting, by Kafka's name; may be repeated",
    )
    return made


def _read_kept(data_dir: Path) -> dict[str, Any]:
    """What `tidelog cluster join` has left in the data directory. Everything else wins over it."""
    path = data_dir / KEPT_CONFIG
    kept = _read_config(path) if path.exists() else {}
    kept.pop("data-dir", None)
    return kept


def _read_config(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    import tomllib

    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    known = [*_DEFAULTS, "settings"]
    for name in content:
        if name not in known:
            raise UsageError(f"{path}: unknown key {name!r}; known are {', '.join(known)}")
    if not isinstance(content.get("settings", {}), dict):
        raise UsageError(f"{path}: settings must be a table: [settings]")
    return content


def _flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """TOML reads `num.partitions = 4` as a table in a table; a setting's name has the dots."""
    flat: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat.update(_flattened(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = str(value).lower() if isinstance(value, bool) else str(value)
    return flat


def _settings(pairs: Mapping[str, str]) -> dict[str, Value]:
    return parse_settings(pairs, scope="node")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--set must be NAME=VALUE: not {text!r}")
    return name.strip(), value.strip()


def address(text: object, *, name: str) -> tuple[str, int]:
    host, colon, port = str(text).rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65_536):
        raise UsageError(f"{name} must be HOST:PORT, as 127.0.0.1:9092: not {text!r}")
    return host.strip("[]"), int(port)


def _node_id(text: object) -> int:
    digits = str(text)
    if not digits.isdecimal() or int(digits) > _LARGEST_NODE_ID:
        raise UsageError(f"--node-id must be a whole number from 0: not {text!r}")
    return int(digits)


def _warn_of_strangers(options: ServeOptions) -> None:
    print(
        f"warning: {options.host} can be reached from other machines, and this release has no "
        "authentication: whoever can connect can read and write everything. Clients are sent to "
        f"{options.advertised or options.host}; --advertise HOST changes that",
        file=sys.stderr,
    )


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")
