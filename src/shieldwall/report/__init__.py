"""Show certification results: tables for the terminal and for documents, and figures."""

from shieldwall.report.plots import plot_certified_accuracy
from shieldwall.report.tables import as_markdown, table
from shieldwall.results.metrics import curve

__all__ = ["as_markdown", "curve", "plot_certified_accuracy", "table"]
