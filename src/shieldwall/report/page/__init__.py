"""A report as one HTML file that asks for nothing from outside."""

from shieldwall.report.page.write import write_page

__all__ = ["write_page"]
