"""Ensembles of members: the votes, and modules that carry them."""
