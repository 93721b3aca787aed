# SPDX-License-Identifier: MIT
"""terminal.py COMMAND...: runs a command on a terminal, and prints what it shows there."""

import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
