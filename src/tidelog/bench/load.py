"""A generator process: `python -m tidelog.bench.load JOB`, one line of JSON back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tidelog.bench.figures import Outcome, outcome_from_json, outcome_to_json
from tidelog.bench.jobs import (
    ClientConsumeJob,
    ClientProduceJob,
    DrainJob,
    Job,
    PaceJob,
    PumpJob,
    job_from_json,
    job_to_json,
)

_GRACE_SECONDS = 240.0
"""Beyond its window: connecting, warming up, and waiting for the last answers."""


class LoadFailed(Exception):
    """A generator gave up; the message is its last words."""


def run_job(job: Job) -> Outcome:
    """Do the job in this process. A kind is imported only when it is the one to run."""
    match job:
        case PumpJob():
            from tidelog.bench.pump import pump

            return pump(job)
        case DrainJob():
            from tidelog.bench.drain import drain

            return drain(job)
        case PaceJob():
            from tidelog.bench.pace import pace

            return pace(job)
        case ClientProduceJob() | ClientConsumeJob():
            from tidelog.bench.client import run_client

            return run_client(job)


def run_apart(jobs: Sequence[Job]) -> list[Outcome]:
    """Each job in a process of its own, all at once; their outcomes in the same order."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tidelog.bench.load", job_to_json(job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    try:
        return [
            _outcome_of(process, timeout=job.seconds + _GRACE_SECONDS)
            for process, job in zip(processes, jobs, strict=True)
        ]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def _outcome_of(process: subprocess.Popen[str], timeout: float) -> Outcome:
    output, errors = process.communicate(timeout=timeout)
    if process.returncode != 0:
        last_words = errors.strip().splitlines()[-1:] or ["no word"]
        raise LoadFailed(f"a load generator failed: {last_words[0]}")
    return outcome_from_json(json.loads(output))


def main() -> None:
    outcome = run_job(job_from_json(sys.argv[1]))
    sys.stdout.write(json.dumps(outcome_to_json(outcome)) + "\n")


if __name__ == "__main__":
    main()
