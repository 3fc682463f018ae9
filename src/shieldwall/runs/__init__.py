"""Work on run folders: each stage of an experiment takes a run folder and writes its results into it.

Every stage can be killed at any moment and called again: training and certification resume from the files in
the folder, the other stages start again.
"""
