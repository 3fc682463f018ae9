"""Show certification results: tables for the terminal and for documents, figures, and a page."""
