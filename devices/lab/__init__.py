"""The display of made-to-order apps: themes, the layout of a screen, and its picture."""
