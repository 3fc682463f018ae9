"""A live page: draw, choose or upload an image and watch its certificate grow."""
