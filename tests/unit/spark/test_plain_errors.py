"""What Spark says with plans and stack traces becomes one line."""

from __future__ import annotations

import pytest

from tidelog.spark.plain_errors import condition, plain

ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved. \
Did you mean one of the following? [`city`]. SQLSTATE: 42703; line 1 pos 7;
'Project ['nope]
+- Range (0, 3, step=1)
"""
PARSING = """
[PARSE_SYNTAX_ERROR] Syntax error at or near 'form'. SQLSTATE: 42601 (line 2, pos 9)

== SQL ==
select 1
form orders
---------^^^
"""
TASK = """Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 times, most recent failure:
Lost task 0.0 in stage 2.0 (TID 2) (localhost executor driver): org.apache.spark.api.python.\
PythonException: Traceback (most recent call last):
  File "/some/worker.py", line 12, in main
    process()
  File "/some/reader.py", line 9, in read
    raise DataLoss(
tidelog.spark.errors.DataLoss: records 5 to 9 of orders-0 are gone: retention has removed them

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
"""
HIDDEN = (
    "[STREAM_FAILED] Query [id = a] terminated with exception: there is no topic 'x' "
    "SQLSTATE: XXKST"
)

FLOW = """Flow 'spark_catalog.default.orders_clean' has FAILED.
Error: Query [id = a, runId = b] terminated with exception: Python worker failed to connect back.
=== Streaming Query ===
Identifier: spark_catalog.default.orders_clean [id = a, runId = b]
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            ANALYSIS,
            "A column with name `nope` cannot be resolved. Did you mean one of the following? "
            "[`city`]. (line 1, character 8)",
        ),
        (PARSING, "Syntax error at or near 'form'. (line 2, character 10)"),
        (TASK, "records 5 to 9 of orders-0 are gone: retention has removed them"),
        (HIDDEN, "there is no topic 'x'"),
        (FLOW, "flow orders_clean: Python worker failed to connect back."),
        ("java.lang.IllegalStateException: it broke\n\tat a.b.C.d(C.java:1)", "it broke"),
        ("a plain sentence", "a plain sentence"),
    ],
    ids=["analysis", "parsing", "task", "stream", "flow", "java", "plain"],
)
def test_the_sentence_is_found(text: str, said: str) -> None:
    assert plain(RuntimeError(text)) == said


def test_an_unknown_table_is_named_without_advice_on_catalogs() -> None:
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found. SQLSTATE: 42P01"
    assert plain(RuntimeError(text)) == "there is no topic, table or view `orders`"


def test_an_error_without_words_has_at_least_its_name() -> None:
    assert plain(RuntimeError()) == "RuntimeError"


def test_the_condition_is_read_from_the_text_where_nobody_tells_it() -> None:
    assert condition(RuntimeError(ANALYSIS)) == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert condition(RuntimeError("words")) == ""


def test_a_java_exception_is_heard_down_to_its_cause() -> None:
    class Java:
        """As py4j shows one."""

        def __init__(self, said: str, cause: Java | None = None) -> None:
            self._said, self._cause = said, cause

        def getMessage(self) -> str:
            return self._said

        def getCause(self) -> Java | None:
            return self._cause

    error = RuntimeError("An error occurred while calling o1.collect")
    error.java_exception = Java("outer", Java("[X_Y] The cause. SQLSTATE: 42000", Java("null")))  # type: ignore[attr-defined]
    assert plain(error) == "The cause."


def test_a_very_long_sentence_is_cut() -> None:
    assert len(plain(RuntimeError("word " * 10_000))) == 600
