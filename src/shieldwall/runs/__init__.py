"""Work on run folders."""
