# SPDX-License-Identifier: Apache-2.0
"""A source tree that make takes as Linux for weir's build: its kernel is one C file and a shell script.

Its Makefile has the kernel's interface: O=, KCONFIG_ALLCONFIG=, the targets allnoconfig and linux, and the
lines that it prints.
"""

from __future__ import annotations

from pathlib import Path

from weir.kernel.configuration import read_fragment
from weir.kernel.patches import SEED_PATCH

_MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 9
EXTRAVERSION = -rc1
NAME = Fake

allnoconfig:
	@test -f "$(KBUILD_KCONFIG)"
	@grep -v '^CONFIG_LACKING=' "$(KCONFIG_ALLCONFIG)" > $(O)/.config
	@echo 'CONFIG_CC_VERSION_TEXT="gcc of the test"' >> $(O)/.config

linux: $(O)/tcp_bbr.o
	@echo "  LD      linux"
	@cp kernel.sh $(O)/linux

$(O)/tcp_bbr.o: net/ipv4/tcp_bbr.c
	@echo "  CC      net/ipv4/tcp_bbr.o"
	@gcc -c -o $@ $<
"""

# As a kernel does, it has its init last in its arguments; the last of init's is the file of the answer.
_KERNEL = """\
#!/bin/sh
echo "Linux version 6.12.9-rc1"
for word; do answer=$word; done
entropy=$(ENTROPY)
echo '{"version": "6.12.9-rc1", "congestion_controls": ["reno", "bbr"], "entropy": "'$entropy'"}' > "$answer"
"""

_KCONFIG = """\
config TCP_CONG_BBR
	tristate "BBR TCP"
	default n
"""


_ENTROPY = {True: "echo 00", False: "head -c 8 /dev/urandom | od -An -tx8 | tr -d ' '"}


def make_source(
    folder: Path,
    *,
    code: str = "int gain = 2;\n",
    kernel: str = _KERNEL,
    kconfig: str = "",
    seeded: bool = False,
) -> Path:
    """Write the tree into a new folder; `code` is its only C file, `kernel` the program that it makes.

    `seeded` adds the files to which weir's patch for the guest's entropy applies.
    """
    symbols = "".join(f"config {name.removeprefix('CONFIG_')}\n\tbool\n" for name in read_fragment())
    files = {
        "Makefile": _MAKEFILE,
        "Kconfig": 'mainmenu "Fake"\nsource "net/ipv4/Kconfig"\n',
        "kernel.sh": kernel.replace("ENTROPY", _ENTROPY[seeded]),
        "arch/um/Kconfig": symbols,
        "net/ipv4/Kconfig": _KCONFIG + kconfig,
        "net/sched/Kconfig": "",
        "net/ipv4/tcp_bbr.c": code,
        "scripts/kconfig/Makefile": "",
    }
    if seeded:
        files |= _before(SEED_PATCH.read_text())
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "kernel.sh").chmod(0o755)
    return folder


def _before(patch: str) -> dict[str, str]:
    """The files that a patch changes, with no more than the lines that it expects."""
    files: dict[str, str] = {}
    for part in patch.split("\n--- a/")[1:]:
        name, _, rest = part.partition("\n")
        lines = [line[1:] for line in rest.splitlines() if line[:1] in (" ", "-")]
        files[name] = "".join(f"{line}\n" for line in lines)
    return files
