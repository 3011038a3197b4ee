"""Apps made to order: a graph of screens with controls, its state, goals on it, and the shortest way to them.

In the spirit of GUI Exploration Lab (arXiv 2512.02423): how long a task is, how large its app, and how far
from those of training are all chosen. Everything here is a pure function of a specification; the driver `lab`
of `devices` draws it, the taskset `lab` of `rewards` asks for things in it.
"""
