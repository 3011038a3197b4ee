"""Words that tasks are made of, drawn by their seeds."""

WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "inlet", "juniper")
GOODS = ("Tea", "Rice", "Oil", "Salt", "Flour", "Beans", "Sugar", "Pasta")
PLACES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Accra", "Perth", "Turin", "Bergen")
