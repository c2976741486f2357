"""Commands to records: the only room that decides what the cluster's facts become.

Each `decide_*` is a pure function of the image and a command and gives a `Decision`: records to
commit, and the response to send once they are. Nothing changes until the records are replayed.
Start with `controller.py`; `topics.py` has the rules people meet first.
"""
