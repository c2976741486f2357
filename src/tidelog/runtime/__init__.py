"""The doors: the only room with sockets, files, threads and clocks.

- `service.py` runs one node: the loop, the signals, the one place where effects are carried out.
- `listener.py`, `connection.py` sockets; `receive_pool.py`, `frame_progress.py` the memory and the
  time that requests on their way in may take.
- `flusher.py` the flush thread; `file_disk.py` the disk.

Rules: nothing is decided here; everything that may block for long (fsync) is in the flush thread.
"""
