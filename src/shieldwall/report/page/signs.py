"""The signs that a page has and source code would confuse with Latin letters."""

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
RHO = "\N{GREEK SMALL LETTER RHO}"
MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"
"""Where there is no number to show."""
