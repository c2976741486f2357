"""Commands to records: the only room that decides what the cluster's facts become.

Each `decide_*` is a pure function of the image and a command and gives a `Decision`: records to
commit, and the response to send once they are. Nothing changes until the records are replayed. A
`plan_*` gives records, or commands, for others to decide on.

- `elections.py` who leads: every change of a partition ends there. Start with it.
- `registry.py`, `sessions.py` who is in the cluster, and alive; `node_changes.py` what that means
  for partitions.
- `isr_changes.py`, `elect_leaders.py`, `reassignments.py` what leaders and people ask for.
- `topics.py`, `placement.py`, `configs.py` what people have; `nodes.py` identity and producer ids.
- `controller.py` all of it, on the newest facts, with the sessions as its only soft state.
"""
