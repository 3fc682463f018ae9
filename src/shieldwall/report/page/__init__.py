"""A report as one HTML file that asks for nothing from outside."""
