"""The phone's shell: Android's commands as the tools that drive phones use them, in this process alone.

A script is parsed by `grammar`, run by `session`, and knows only the programs below; nothing of it ever
reaches a shell or a program of this machine.
"""

from devices.phone.machine import Machine
from devices.phone.shell import activities, data, dumpsys, files, logs, network, own, screen, text
from devices.phone.shell.session import Program, Session

PROGRAMS: dict[str, Program] = {
    **activities.PROGRAMS,
    **data.PROGRAMS,
    **dumpsys.PROGRAMS,
    **files.PROGRAMS,
    **logs.PROGRAMS,
    **network.PROGRAMS,
    **own.PROGRAMS,
    **screen.PROGRAMS,
    **text.PROGRAMS,
}


def open_session(machine: Machine) -> Session:
    return Session(machine, PROGRAMS)
