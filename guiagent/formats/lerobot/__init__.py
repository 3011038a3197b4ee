"""LeRobot's data sets, v3.0: a row a turn, with its screen, its action as numbers and its reply as text.

Format: huggingface/lerobot, `lerobot/datasets` (read by its 0.4.4 and 0.6.1): `meta/info.json`,
`meta/stats.json`, `meta/tasks.parquet`, `meta/episodes/` and `data/`. A task is an instruction. Screens are
pictures in the Parquet files (dtype "image"), as they were recorded: LeRobot's videos are lossy, and a letter
of a screen is a few pixels. A turn takes a second (`fps` 1), however long it took.

LeRobot's policies read and write numbers: `action` (`features.ACTION_NAMES`) is the first action of a reply,
without its text and its keys. Beside it `reply.text`, `reply.actions` (JSON, in pixels) and `reply.error` say
all of it, and these are read back. `next.reward` and `next.success` are the verdict, in the last row; unknown
is 0 there. The rest is `About`, a column `guiagent/about` of the episodes; the last screen is a file.

A feature has one shape: screens of several sizes become a data set each, `WIDTHxHEIGHT`, and an episode whose
screen changes its size is left out.

In: the same, and others' data sets with one camera of pictures, whose `action` is a string: the dialect reads
it. What numbers mean in theirs, and videos, nobody can tell.
"""

from guiagent.formats.lerobot.reading import read
from guiagent.formats.lerobot.writing import write

__all__ = ["read", "write"]
