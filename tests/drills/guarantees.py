"""What is promised, and by which drill or test each promise is held."""

from typing import NamedTuple


class Guarantee(NamedTuple):
    """`drills` are those whose counts stand beside it; `tests` are run by `make test` or `make drill`."""

    name: str
    promise: str
    drills: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


GUARANTEES = (
    Guarantee(
        "G1", "The pool may be killed at any moment: no acknowledged lease is lost or given twice", ("kills",)
    ),
    Guarantee(
        "G2",
        "So may any part: pool, leader, host, holder, trainer, database. Grants, fences, trajectories hold",
        ("mixed", "trainer"),
    ),
    Guarantee(
        "G3",
        "Cut short at any file operation, by a kill, a full or a broken disk, store and checkpoints recover",
        ("store", "crashes"),
    ),
    Guarantee(
        "G4",
        "A lease whose holder vanished is given to the next within its time to live and 2 s",
        ("reclaim",),
    ),
    Guarantee(
        "G5", "Nothing that comes late is executed, on any verb or stream", ("late", "calls", "pauses")
    ),
    Guarantee("G6", "A pool that was killed grants again within seconds; the time is measured", ("kills",)),
    Guarantee(
        "G7", "Slow, half-open and flooding clients do not stop a neighbour's calls", ("slow", "exhaustion")
    ),
    Guarantee(
        "G8",
        "No request brings out a 5xx but those that say a device, a leader or room is missing",
        ("api", "deep", "raw"),
    ),
    Guarantee(
        "G9",
        "Whatever happens to a farm in whatever order, its invariants hold at four depths",
        ("soak",),
        ("tests/devices/test_leases.py",),
    ),
    Guarantee("G10", "Any bytes give every parser a value or its own error, and run nothing", ("parsers",)),
    Guarantee("G11", "A resumed training run comes to the same weights, bit for bit", ("crashes",)),
    Guarantee(
        "G12",
        "Doubled requests, lost answers, delays and resets change no result",
        ("network", "database"),
    ),
    Guarantee(
        "G13",
        "Days of traffic and jumps of the clock leave nothing behind",
        ("soak",),
        ("python -m tests.bench.soak",),
    ),
    Guarantee(
        "G14",
        "Nothing listens off loopback, nothing of a holder is left for the next",
        ("listeners", "residue"),
        ("tests/attacks/",),
    ),
    Guarantee(
        "G15",
        "Garbage is no pass, and the agent's words do not reach the judge",
        ("judge",),
        ("tests/rewards/",),
    ),
    Guarantee("G16", "Each of twelve seeded defects is noticed", ("mutants",)),
)
