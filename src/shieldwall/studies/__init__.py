"""Studies: named sets of runs, those of the paper's tables and figures and a user's own."""
