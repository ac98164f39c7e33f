# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run's hosts and its switch, from the packets that two of them have stamped.

- `bounds.py`: what these packets say about the difference of two clocks
- `steps.py`: the moments at which a clock was set
- `track.py`: the difference of two clocks as lines between steps, and how exactly it is known
- `records.py`: a capture's records whose clock was set back, in the order of the file
- `moved.py`: from a host's clock to the run's
- `hosts.py`: all hosts that exchange packets, beside one of them
- `run.py`: all hosts of a run beside the run's clock
- `switch.py`: the switch
"""
