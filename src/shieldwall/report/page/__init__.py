"""A report as one HTML file without outside resources."""
