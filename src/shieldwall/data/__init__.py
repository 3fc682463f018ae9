"""Data sets: found on this machine or downloaded once, and read as tensors in [0, 1].

splits.py holds the values, datasets.py the known sets by name (torch-free until one is loaded), files.py the
official formats and downloads, folder.py images in class folders.
"""
