"""A driver of its own: a topic into Parquet, in small batches, until all of it is written.

Run as a program by tests that kill it: `parquet_stream.py BOOTSTRAP TOPIC DIRECTORY`.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

ROWS_A_BATCH = 50


def main(bootstrap: str, topic: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    query = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_A_BATCH))
        .option("minPartitions", "4")
        .load()
        .select("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .option("path", f"{directory}/rows")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
