"""The stages of an experiment, each from a run folder to the same run folder.

Every stage can be killed at any moment and called again: training and certification go on from what the
folder holds, the others start over.
"""
