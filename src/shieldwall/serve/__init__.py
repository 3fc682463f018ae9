"""A live page: draw, choose or upload an image and watch its certificate grow.

browser -> drawing or file -> pixels of the model's size -> samples, a turn for each visitor -> counts, radius
"""
