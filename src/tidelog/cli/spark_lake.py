"""`tidelog spark archive | table | replay | optimize`: topics to the lake and back."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.names import topic_names
from tidelog.cli.options import AsJson, Bootstrap, TopicName, named
from tidelog.cli.output import aside, duration_text, emit_json, people, plural, size_text
from tidelog.cli.spark_options import Conf, Master, spark_session
from tidelog.cli.spark_progress import (
    FollowReport,
    ReplayReport,
    ending_with_signals,
    hours,
    moment_us,
    seconds,
)
from tidelog.client.connection import DEFAULT_BOOTSTRAP, Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tidelog.spark.jobs.follower import Follower, Listener

app = typer.Typer(rich_markup_mode="markdown")


_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")


def a_directory(path: Path | str) -> Path | str:
    """A path of the file system. The address of an object store would become one by accident."""
    if _ADDRESS.match(str(path)):
        raise typer.BadParameter(
            f"must be a directory that all executors see, not an address: {path}"
        )
    return path


class OnLoss(StrEnum):
    """What to do if the log has deleted records before they were read."""

    FAIL = "fail"
    CONTINUE = "continue"


Every = Annotated[
    str | None,
    typer.Option(
        "--every", metavar="TIME", help="Go on, and look for more so often: 60s, 5m. Ctrl-C ends."
    ),
]
LossChoice = Annotated[
    OnLoss,
    typer.Option(
        "--on-loss",
        metavar="WHAT",
        help="If records were deleted before they were read: fail, or continue with the rest.",
    ),
]
GroupToShow = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="NAME",
        help="The group whose lag shows the progress.",
        callback=named,
    ),
]
BatchRecords = Annotated[
    int | None,
    typer.Option("--batch-records", min=1, metavar="N", help="At most so many in one commit."),
]


@app.command(
    epilog="Example: `tidelog spark archive orders --to ./lake --every 60s`\n\n"
    "Read it: `tidelog spark sql 'select count(*) from orders' --lake ./lake`, or with any "
    "reader of Delta tables"
)
def archive(
    topic: TopicName,
    to: Annotated[
        Path,
        typer.Option(
            "--to", metavar="DIR", help="The lake; the table is DIR/TOPIC.", callback=a_directory
        ),
    ],
    every: Every = None,
    on_loss: LossChoice = OnLoss.FAIL,
    group: GroupToShow = None,
    batch_records: BatchRecords = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Copy a topic into a Delta table, each record exactly once.

    Without --every it archives what is there and ends. It may be killed and started again at any
    time: it goes on where the table ends. All executors must see DIR under the same path.
    """
    every_s = seconds(every, option="--every")

    def job(spark: SparkSession, listener: Listener) -> Follower:
        from tidelog.spark.jobs import archive as jobs

        options = jobs.ArchiveOptions(
            topic,
            to,
            bootstrap,
            group=group,
            batch_records=batch_records or jobs.BATCH_RECORDS,
            on_loss=on_loss.value,
        )
        return jobs.archive(spark, options, listener)

    report = FollowReport(topic, to / topic, verb="archived", as_json=as_json)
    _follow(job, report, bootstrap, every_s, master, conf)


@app.command(
    epilog="Example: `tidelog spark table users --to ./lake/users_latest --every 5m`\n\n"
    "A record without a value deletes its key; records without a key are left out."
)
def table(
    topic: TopicName,
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="The table itself.", callback=a_directory),
    ],
    every: Every = None,
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="TIME", help="How long old versions stay readable: 1h, 7d."),
    ] = "1h",
    on_loss: LossChoice = OnLoss.FAIL,
    group: GroupToShow = None,
    batch_records: BatchRecords = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Keep the latest value of each key as a Delta table, up to date by merge.

    Without --every it merges what is there and ends. It may be killed and started again at any
    time. All executors must see DIR under the same path.
    """
    every_s = seconds(every, option="--every")
    keep_hours = hours(keep, option="--keep")

    def job(spark: SparkSession, listener: Listener) -> Follower:
        from tidelog.spark.jobs import table as jobs

        options = jobs.TableOptions(
            topic,
            to,
            bootstrap,
            group=group,
            batch_records=batch_records or jobs.BATCH_RECORDS,
            on_loss=on_loss.value,
            keep_hours=keep_hours,
        )
        return jobs.latest_values(spark, options, listener)

    report = FollowReport(topic, to, verb="merged", as_json=as_json)
    _follow(job, report, bootstrap, every_s, master, conf)


_TARGET = typer.Option(
    "--topic",
    "-t",
    metavar="TOPIC",
    help="Where to; made with the source's partitions if it is not there.",
    autocompletion=topic_names,
    callback=named,
)


@app.command(
    epilog="Example: `tidelog spark replay ./lake/orders --topic orders.v2 --from 2026-01-01`\n\n"
    "From the log: `tidelog spark replay orders --topic orders.v2`"
)
def replay(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A table of the lake (a path), or a topic.",
            callback=a_directory,
        ),
    ],
    topic: Annotated[
        str,
        _TARGET,
    ],
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Not before: 2026-01-01, 2026-01-31T12:00."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Before that time.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Begin anew, also if it was replayed before.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    source_bootstrap: Annotated[
        str | None,
        typer.Option("--from-bootstrap", metavar="HOST:PORT", help="The source topic's cluster."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Write archived records, or a range of a log, into a topic.

    Key, value, headers, timestamp, partition and order are kept. It may be killed and started
    again: it goes on where it was, as long as nobody else writes to the topic.
    """
    since_us, until_us = moment_us(since, option="--from"), moment_us(until, option="--to")
    is_lake = "/" in source or Path(source).is_dir()
    Connection(bootstrap).probe()
    report = ReplayReport(source, topic, as_json=as_json)
    with spark_session(master, conf) as spark, report:
        from tidelog.spark.jobs import replay as jobs
        from tidelog.spark.jobs.replay_source import Period

        options = jobs.ReplayOptions(
            Path(source) if is_lake else source,
            topic,
            bootstrap,
            source_bootstrap=source_bootstrap,
            period=Period(since_us, until_us),
            is_anew=again,
        )
        jobs.replay(spark, options, on_turn=report.on_turn, on_trouble=report.on_trouble)
    report.summarize()


@app.command(
    epilog="Example: `tidelog spark optimize ./lake/orders`\n\n"
    "Delete at once what is not needed: `tidelog spark optimize ./lake/orders --keep 0h`"
)
def optimize(
    path: Annotated[
        Path,
        typer.Argument(metavar="TABLE", help="A table, as ./lake/orders.", callback=a_directory),
    ],
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="TIME",
            help="Delete files that no version of this time needs: 7d, 24h. Below 24h nobody may "
            "be writing to the table.",
        ),
    ] = "7d",
    target_mb: Annotated[
        int, typer.Option("--target-mb", min=1, metavar="N", help="How large files should be.")
    ] = 128,
    master: Master = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Join small files to large ones, and delete what no version needs any more.

    It may run while `archive` does.
    """
    keep_hours = hours(keep, option="--keep")
    with spark_session(master, conf) as spark, aside().status("optimizing") as status:
        from tidelog.spark.jobs.optimize import optimize as run

        done = run(
            spark,
            path.absolute(),
            target_bytes=target_mb * 1024 * 1024,
            keep_hours=keep_hours,
            on_progress=lambda count, of: status.update(f"optimizing: {count} of {of} runs"),
        )
    if as_json:
        emit_json(
            {
                "table": str(path),
                "files_before": done.files_before,
                "files_after": done.files_after,
                "bytes_before": done.bytes_before,
                "bytes_after": done.bytes_after,
                "files_deleted": done.deleted,
            }
        )
        return
    people().print(
        f"{path}: {plural(done.files_before, 'file')} ({size_text(done.bytes_before)}) "
        f"→ {plural(done.files_after, 'file')} ({size_text(done.bytes_after)}); "
        f"{plural(done.deleted, 'old file')} deleted"
    )


def _follow(
    make: Callable[[SparkSession, Listener], Follower],
    report: FollowReport,
    bootstrap: str,
    every_s: float | None,
    master: str | None,
    conf: list[str] | None,
) -> None:
    """Run a job that follows a topic, with a report. A broker that is not there is said at once:
    only one that goes away later is waited for."""
    Connection(bootstrap).probe()
    with spark_session(master, conf) as spark:
        from tidelog.spark.jobs.follower import Listener

        with (
            report,
            make(spark, Listener(report.on_batch, report.on_trouble)) as job,
            ending_with_signals(job.stop),
        ):
            if every_s is None:
                job.catch_up()
            else:
                report.say(f"every {duration_text(every_s)}; Ctrl-C ends")
                job.follow(every_s)
    report.summarize()
