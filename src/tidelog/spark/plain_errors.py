r"""One clear line for what Spark says with a plan, two stack traces and a state code.

Three kinds of text arrive here. *Analysis and parsing*: `[CONDITION] A sentence. SQLSTATE: 42703;
line 1 pos 7;` and a plan below it. *A Python task or data source that failed*: a Java sentence, a
Python traceback whose last line is ours, and a Java stack trace. *All else*: a Java exception, of
which only the first line speaks.

`plain` turns any of them into the sentence; `speaking_plainly` is the block around a job that
raises it as a `PipelineError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidelog.spark.errors import PipelineError

_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]+)\] ?")
_STATE = re.compile(r"\s*SQLSTATE: \w{5}\b;?")
_PLACE = re.compile(r";?\s*\(?line (?P<line>\d+),? pos (?P<position>\d+)\)?;?\s*$")
_NOT_ONE_OF_OURS = re.compile(r"^(?:org|java|scala|py4j)\.[\w.$]+(?:Exception|Error): ")
_ENDS = (
    "=== Streaming Query ===",
    "\n\tat ",
    "\n\nJVM stacktrace",
    "\nJVM stacktrace",
    "\n\n== ",
    "\n== SQL",
    "\nDriver stack",
)
_PLAN = re.compile(r"^\s*(?:'|\+- |:- |!|Project|Filter|Aggregate|Sort|Relation)")
_FLOW = re.compile(r"^Flow \S*?(?P<name>[^.'` ]+)['`]* has FAILED\.\s*Error: ")
_QUERY = re.compile(r"Query \[id = [^\]]*\] terminated with exception: ")
_LONGEST = 600
_DEEPEST = 20


def plain(error: BaseException) -> str:
    """The sentence in `error`, without class names, codes, plans and stack traces."""
    text = _message(error)
    if _TRACEBACK in text:
        text = _python_cause(text)
    text = _QUERY.sub("", _FLOW.sub(r"flow \g<name>: ", _first_part(text)))
    text = _NOT_ONE_OF_OURS.sub("", text)
    text = _CONDITION.sub("", _STATE.sub("", text), count=1)
    place = _PLACE.search(text)
    if place is not None:
        text = f"{text[: place.start()].rstrip(' ;')} (line {place['line']}, {_column(place)})"
    text = " ".join(text.split()).rstrip(" ;")
    return _shortened(_with_advice(condition(error), text) or type(error).__name__)


def condition(error: BaseException) -> str:
    """Spark's name of the failure, such as `TABLE_OR_VIEW_NOT_FOUND`; empty if it has none."""
    ask = getattr(error, "getCondition", None)
    told = ask() if ask is not None else None
    if told:
        return str(told)
    match = _CONDITION.search(str(error))
    return match["name"] if match else ""


@contextmanager
def speaking_plainly() -> Iterator[None]:
    """Whatever Spark raises in this block is raised as a `PipelineError` of one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(plain(error)) from error
    except BrokenPipeError:
        raise
    except ConnectionError as error:
        raise PipelineError("Spark's Java process has gone away: start again") from error


def _message(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else _speaking(java)


def _speaking(java: Any) -> str:
    """Of a Java exception and its causes, the one that speaks: a Python traceback is best, then
    one of Spark's sentences, then whatever the first cause said."""
    texts: list[str] = []
    while java is not None and len(texts) < _DEEPEST:
        texts.append(str(java.getMessage() or java.toString()))
        java = java.getCause()
    for mark in (_TRACEBACK, "SQLSTATE"):
        marked = [text for text in texts if mark in text]
        if marked:
            return marked[-1]
    return texts[-1]


def _python_cause(text: str) -> str:
    """What the last traceback ends with: `package.SomeError: the sentence`."""
    lines = iter(text[text.rindex(_TRACEBACK) :].splitlines()[1:])
    for line in lines:
        match = _RAISED.match(line)
        if match is None:
            continue
        said = [match["message"] or match["kind"]]
        for more in lines:
            if not more.strip() or more.lstrip().startswith(("at ", "Caused by")):
                break
            said.append(more.strip())
        return " ".join(said)
    return text


def _first_part(text: str) -> str:
    for end in _ENDS:
        text = text.partition(end)[0]
    lines = text.strip().splitlines()
    kept = lines[:1]
    for line in lines[1:]:
        if not line.strip() or _PLAN.match(line):
            break
        kept.append(line)
    return " ".join(kept)


def _column(place: re.Match[str]) -> str:
    return f"character {int(place['position']) + 1}"


def _with_advice(name: str, text: str) -> str:
    """Where Spark's own sentence does not say what to do next."""
    if name.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        named = re.search(r"`[^ ]+`", text)
        return f"there is no topic, table or view {named[0] if named else ''}"
    if name.startswith("DATA_SOURCE_NOT_FOUND"):
        return f'{text} (is "tidelog[spark]" installed where Spark runs?)'
    return text


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
