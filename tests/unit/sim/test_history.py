"""The recorded history: its format, and how invocations find their completions."""

from __future__ import annotations

from tidelog.sim.history import Entry, History, dump, load, operations


def make_history() -> History:
    return History(lambda: 5)


def test_a_history_survives_its_own_format() -> None:
    history = make_history()
    history.add(1, "invoke", "send", tp=("a-b", 0), value=7, ts=99, pid=3, pepoch=0)
    history.add(1, "ok", "send", tp=("a-b", 0), value=[12, 7])
    history.add(2, "invoke", "poll", value={("a-b", 0): 12})
    polled = {("a-b", 0): [[12, 7]]}
    history.add(2, "ok", "poll", value=polled, digests={("a-b", 0): [[12, 555]]})
    history.add(3, "info", "list_offsets", tp=("a-b", 0), err="timed out")
    history.add(0, "info", "loss", value=[("a-b", 0)])
    assert load(dump(history.entries)) == history.entries


def test_a_line_has_the_documented_keys() -> None:
    entry = Entry(i=0, t=5, proc=1, type="ok", f="send", tp=("t", 2), value=[0, 9])
    assert entry.to_json() == (
        '{"i":0,"t":5,"proc":1,"type":"ok","f":"send","tp":["t",2],"value":[0,9]}'
    )


def test_sends_under_way_together_are_told_apart_by_their_values() -> None:
    history = make_history()
    history.add(1, "invoke", "send", tp=("t", 0), value=1)
    history.add(1, "invoke", "send", tp=("t", 0), value=2)
    history.add(1, "ok", "send", tp=("t", 0), value=[5, 2])
    history.add(1, "fail", "send", tp=("t", 0), value=[-1, 1], err="INVALID_RECORD")
    first, second = operations(history.entries)
    assert (first.invocation.value, first.type) == (1, "fail")
    assert (second.invocation.value, second.type) == (2, "ok")


def test_what_never_completed_is_info() -> None:
    history = make_history()
    history.add(1, "invoke", "poll", value={})
    (only,) = operations(history.entries)
    assert only.type == "info"
    assert only.ended == float("inf")


def test_processes_are_numbered_once() -> None:
    history = make_history()
    assert len({history.new_process() for _ in range(10)}) == 10
