"""The `tidelog` command: one file per noun, a table for people, `--json` for programs.

- `main.py` is the entry point. It runs `serve` without typer and rich, so that a broker is ready
  in a fraction of a second; everything else goes to `app.py`, which loads a noun when it is used.
- `output.py` is how everything is said, `options.py` what several nouns accept, `names.py` what the
  Tab key offers. A noun that got long has its parts beside it: `group_lag.py`, `topic_view.py`.
- Deleting a whole topic or group asks first, at a terminal. Moving or deleting a part is shown
  first and done with `--yes`.

Rules: exit code 0 only on success; 1 with one line `error: …` on standard error; 2 if the command
line is wrong; 130 on Ctrl-C. Never a stack trace at a user. Every `--help` has an example.
"""
