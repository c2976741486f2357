"""The doors: the only room with sockets, files, threads and clocks.

- `service.py` runs one node: the loop, the signals, the one place where effects are carried out.
- `listener.py`, `connection.py` sockets; `flusher.py` the flush thread; `file_disk.py` the disk.

Rules: nothing is decided here; everything that may block for long (fsync) is in the flush thread.
"""
