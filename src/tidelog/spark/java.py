"""Finds the Java that Spark needs: 17 or newer, of this machine or where JAVA_HOME says.

Spark itself would only say "Java gateway process exited". Asking first costs a tenth of a second
and lets the message name the package to install.

`python -m tidelog.spark.java` exits with 0 if there is one: the Makefile asks so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tidelog.spark.errors import PipelineError

OLDEST = 17
PACKAGE = "openjdk-17-jre-headless"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_TIMEOUT_S = 60.0
"""A Java that is starved of CPU takes its time even to say its version."""


class JavaMissing(PipelineError):
    """There is none, or it is too old."""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The program `java` that Spark will start; `JavaMissing` says what to install."""
    home = environment.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not program.is_file():
            raise JavaMissing(
                f"JAVA_HOME is {home}, but there is no bin/java in it: correct it or unset it"
            )
    else:
        found = shutil.which("java", path=environment.get("PATH"))
        if found is None:
            raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and there is none: {_advice()}")
        program = Path(found)
    version = parse_version(_asked(program))
    if version is None or version < OLDEST:
        told = "says no version" if version is None else f"is Java {version}"
        raise JavaMissing(f"Spark needs Java {OLDEST} or newer; {program} {told}: {_advice()}")
    return program


def parse_version(text: str) -> int | None:
    """The feature number of what `java -version` says: 17 of `17.0.15`, 8 of `1.8.0_392`."""
    match = _VERSION.search(text)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second is not None else first


def _asked(program: Path) -> str:
    try:
        done = subprocess.run(
            [str(program), "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _advice() -> str:
    return f"install it with `sudo apt-get install {PACKAGE}`, or set JAVA_HOME"


def _main() -> int:
    try:
        find_java()
    except JavaMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
