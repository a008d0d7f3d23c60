"""An exact similarity index of names, as arrays.

Names are kept in *segments* that never change: for each trigram the entries that
have it, in an order in which similar names stand together
(:mod:`graphalgo.names.building`), and a search that passes by most of them
(:mod:`graphalgo.names.search`). The database keeps segments in tables
(:mod:`graphalgo.names.tables`), the store in memory keeps them as they are.

Needs numpy, and so is imported by whoever has made sure of it and has names
enough for it to pay.
"""
