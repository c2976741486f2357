"""`python -m tidelog` is the `tidelog` command."""

from __future__ import annotations

import sys

from tidelog.cli.main import main

sys.exit(main())
