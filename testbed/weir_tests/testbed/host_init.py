# SPDX-License-Identifier: Apache-2.0
"""The first process of a test's host: mounts its files over the machine's, and becomes sshd."""

import ctypes
import json
import os
import sys

from weir.topo.linux import mount

_MS_BIND = 4096


def run() -> None:
    """argv: a JSON object with binds (file → place) and tmpfs (folder → options), then the command."""
    wanted = json.loads(sys.argv[1])
    mount("sysfs", "/sys")
    libc = ctypes.CDLL(None, use_errno=True)
    for source, target in wanted["binds"].items():
        if libc.mount(source.encode(), target.encode(), None, _MS_BIND, None) != 0:
            raise OSError(ctypes.get_errno(), "cannot bind", target)
    for folder, options in wanted["tmpfs"].items():
        mount("tmpfs", folder, options)
    os.execv(sys.argv[2], sys.argv[2:])
