"""Data sets: found on this machine or downloaded once, and read as tensors in [0, 1]."""
