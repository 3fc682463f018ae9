"""Work on run folders: each stage of an experiment takes one and leaves its results in it.

Every stage can be killed at any moment and called again: training and certification go on from what the
folder holds, the others start over.
"""
