"""Run a task's test suite on the agent's program: two sandboxes, which speak to each other and share nothing.

The suite decides, and only its sandbox can tell the host. The program's sandbox carries out what the suite
asks of the program's modules: `suite.py` shows the suite objects that stand for the program's, `program.py`
holds the program's own, and `calls.py` is what they say to each other.
"""
