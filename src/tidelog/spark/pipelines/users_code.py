"""While a pipeline's own Python is loaded, whatever it raises becomes one line with its place."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from tidelog.spark.errors import PipelineError
from tidelog.spark.plain_errors import plain


class UsersCode:
    """`with UsersCode(directory):` around code that is not ours and may raise anything."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            raise PipelineError(f"{self._place(error, trace)}{self._said(error)}") from error

    def _place(self, error: Exception, trace: TracebackType | None) -> str:
        """`topics.py, line 7: `, of the innermost line that is the user's."""
        if isinstance(error, SyntaxError) and error.filename:
            return f"{Path(error.filename).name}, line {error.lineno}: "
        frames = traceback.extract_tb(trace)
        own = [each for each in frames if self._directory in Path(each.filename).parents]
        return f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""

    def _said(self, error: Exception) -> str:
        if isinstance(error, SyntaxError):
            return error.msg
        said = plain(error)
        is_sentence = isinstance(error, PipelineError) or hasattr(error, "getCondition")
        return said if is_sentence else f"{type(error).__name__}: {said}"
