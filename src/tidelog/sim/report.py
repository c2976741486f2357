"""What to say about a run: the seed first, what broke, the last events, and how to see it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidelog.sim.run import ANY_SIZE, Outcome, RunOptions

EVENTS_TOLD = 40
FINDINGS_TOLD = 12

_PREFIXES = ("fault", "struck", "answer")


def replay_command(seed: int, options: RunOptions) -> str:
    """The one command that shows the same run again."""
    command = f"tidelog sim run --seed {seed}"
    if options.nodes != 1:
        command += f" --nodes {options.nodes}"
    if options.consensus != "quorum":
        command += f" --consensus {options.consensus}"
    return command if options.ablate is None else f"{command} --ablate {options.ablate.name}"


def tell(outcome: Outcome) -> str:
    """A red run for people, whole: enough to begin looking without running anything."""
    lines = [f"seed {outcome.seed}{_options_text(outcome.options)}"]
    lines += [f"  {finding}" for finding in outcome.findings[:FINDINGS_TOLD]]
    left_out = len(outcome.findings) - FINDINGS_TOLD
    if left_out > 0:
        lines.append(f"  and {left_out} more")
    lines.append(f"last events of {outcome.counters['steps']} steps in virtual milliseconds")
    lines.append("(-> to the node, <- from it):")
    lines += [f"  {event}" for event in outcome.events[-EVENTS_TOLD:]]
    lines.append(f"replay: {replay_command(outcome.seed, outcome.options)}")
    return "\n".join(lines)


def _options_text(options: RunOptions) -> str:
    size = {1: "", ANY_SIZE: ", a cluster"}.get(options.nodes, f", {options.nodes} nodes")
    if options.consensus != "quorum":
        size += f", by {options.consensus}"
    return size if options.ablate is None else f"{size}, without {options.ablate.name}"


def count_rows(counters: Counter[str]) -> dict[str, list[tuple[str, int]]]:
    """The counters by group: what was tried (`fault`), what it hit (`struck`), what the node said
    (`answer`), each with the most frequent first."""
    groups: dict[str, list[tuple[str, int]]] = {prefix: [] for prefix in _PREFIXES}
    for name, count in sorted(counters.items(), key=lambda pair: (-pair[1], pair[0])):
        prefix, _, rest = name.partition(": ")
        if prefix in groups and rest:
            groups[prefix].append((rest, count))
    return groups


def total(counters: Iterable[Counter[str]]) -> Counter[str]:
    """The sum, except of what is a worst case."""
    summed: Counter[str] = Counter()
    worst = 0
    for one in counters:
        summed.update(one)
        worst = max(worst, one["worst lag ms"])
    summed["worst lag ms"] = worst
    return summed
