"""What a test suite may do with a program that runs in another sandbox, as if it were in its own process."""

from pathlib import Path

import pytest

from guiagent.errors import InfrastructureError
from rewards.checks import interpreter, metrics

needs_sandbox = pytest.mark.skipif(
    bool(interpreter.why_no_sandbox()), reason=interpreter.why_no_sandbox() or "-"
)
pytestmark = needs_sandbox

GAME = """
import random
SIZE = 20
COLOURS = {"snake": (0, 255, 0)}
class Dead(Exception): pass
class Food:
    def __init__(self): self.place()
    def place(self): self.x, self.y = random.randint(0, 9) * SIZE, random.randint(0, 9) * SIZE
class Snake:
    def __init__(self, length=3): self.body = [(0, part) for part in range(length)]; self.direction = "right"
    def move(self): self.body.insert(0, (self.body[0][0] + 1, self.body[0][1])); self.body.pop()
    def eats(self, food): return self.body[0] == (food.x, food.y)
    def each(self, function): return [function(part) for part in self.body]
    def die(self): raise Dead("dead")
    def __len__(self): return len(self.body)
    def __eq__(self, other): return isinstance(other, Snake) and self.body == other.body
    def __add__(self, other): return Snake(len(self) + other)
    def __radd__(self, other): return Snake(len(self) + other)
def lookup(mapping, key): return mapping[key]
"""
USES = {
    "values": "SIZE == 20 and COLOURS['snake'] == (0, 255, 0) and isinstance(SIZE, int)",
    "attributes": "Snake().direction == 'right' and not hasattr(Snake(), 'legs')",
    "lists": "Snake().body == [(0, 0), (0, 1), (0, 2)] and [(0, 0)] != Snake().body",
    "iteration": "[x for x, _ in Snake().body] == [0, 0, 0] and sorted(Snake().body)[-1] == (0, 2)",
    "containment": "(0, 1) in Snake().body and 5 not in Snake().body and 'snake' in COLOURS",
    "slices": "Snake().body[-1] == (0, 2) and list(Snake().body[1:]) == [(0, 1), (0, 2)]",
    "classes": "isinstance(Snake(), Snake) and not isinstance(Food(), Snake)",
    "plain classes": "isinstance(Snake().body, list)",
    "operators": "len(Snake()) == 3 and Snake() == Snake() != 3 and len(Snake() + 1) == len(1 + Snake())",
    "keywords": "len(Snake(length=5).body) == 5",
    "functions": "list(Snake().each(lambda part: part[1] * 2)) == [0, 2, 4]",
    "mappings": "lookup({'a': (1, [2])}, 'a')[1] == [2] and lookup([7, 8], 1) == 8",
    "names": "type(Snake()).__name__ != '' and Snake().__class__.__name__ == 'Snake'",
    "truth": "bool(Snake().body) and not bool(Snake(0))",
}
STORIES = {
    "moving": "s = Snake(); s.move(); return s.body[0] == (1, 0)",
    "assigning": "s, f = Snake(), Food(); f.x, f.y = 4, 5; s.body[0] = (4, 5); return s.eats(f)",
    "appending": "s = Snake(); s.body.append((9, 9)); s.body += [(8, 8)]; return len(s) == 5",
    "deleting": "s = Snake(); del s.body[0], s.direction; return len(s) == 2 and not hasattr(s, 'direction')",
    "errors": "\n    try: Snake().body[99]\n    except IndexError: return True",
    "their errors": "\n    try: Snake().die()\n    except Exception as error: return str(error) == 'dead'",
    "seeding": "import random; random.seed(4); a = Food().x; random.seed(4); return a == Food().x",
    "patching": "import random; random.randint = lambda low, high: 3; return Food().x == 60",
    "settings": "game.SIZE = 10; import random; random.randint = lambda low, high: 3; return Food().x == 30",
    "aligned": "return all(Food().x % SIZE == 0 for _ in range(20))",
}


def judged(folder: Path, body: str, program: str = GAME) -> float:
    (folder / "game.py").write_text(program)
    (folder / "suite").mkdir()
    suite = folder / "suite/tests.py"
    suite.write_text(
        f"import game, math\nfrom game import *\nfrom game import Snake as Python\ndef test():\n    {body}\n"
    )
    return metrics.load("check_python_file_by_test_suite")([folder / "game.py"], suite)


def test_uses_of_objects(tmp_path: Path) -> None:
    """All in one, since a sandbox takes a moment; the names of those that fail are looked for after that."""
    body = f"return all([{', '.join(USES.values())}])"
    if judged(tmp_path, body) != 1:
        (tmp_path / "each").mkdir()
        wrong = []
        for name, use in USES.items():
            (tmp_path / name).mkdir()
            if judged(tmp_path / name, f"return {use}") != 1:
                wrong.append(name)
        raise AssertionError(wrong)


@pytest.mark.parametrize("name", STORIES)
def test_stories(name: str, tmp_path: Path) -> None:
    assert judged(tmp_path, STORIES[name]) == 1


def test_a_program_that_ends_while_it_is_tested_fails(tmp_path: Path) -> None:
    assert judged(tmp_path, "import os; Snake().move(); return 1", GAME.replace("insert(0,", "exit(0,")) == 0
    (tmp_path / "other").mkdir()
    assert judged(tmp_path / "other", "return 1", "import os; os._exit(0)") == 0


def test_a_suite_that_hands_on_an_object_of_its_own_is_no_fault_of_the_programs(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="objects of its own"):
        judged(tmp_path, "return len(Snake().body + [object()]) == 4")
