"""Work on run folders: each stage writes its results into one, and can be killed and called again."""
