"""Declarative pipelines: a thin layer over Spark's, with topics at both ends.

In a pipeline's Python files:

::

    from tidelog.spark.pipelines import from_topic, to_topic

    from_topic("orders", schema="order long, city string")     # a streaming view `orders`
    to_topic("orders.clean", "clean", key="order")              # the view `clean`, as JSON

and between the two, SQL or Python that makes `clean` out of `orders`.

- `topics.py` has those two; `project.py` is a pipeline's directory and the templates it may begin
  with; `run.py` runs it, once over all that is new.
- `templates/` are the files `tidelog spark pipeline init` writes.
"""

from __future__ import annotations

from tidelog.spark.pipelines.topics import from_topic, to_topic

__all__ = ["from_topic", "to_topic"]
