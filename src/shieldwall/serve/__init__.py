"""A live page: draw, choose or upload an image and watch its certificate grow.

browser -> drawing or file -> pixels of the model's size -> draws, a turn for each visitor -> counts, radius
"""

from shieldwall.serve.app import application
from shieldwall.serve.runs import Offer, Served, offer
from shieldwall.serve.server import address_of, is_open_to_others, listen, server_for

__all__ = [
    "Offer",
    "Served",
    "address_of",
    "application",
    "is_open_to_others",
    "listen",
    "offer",
    "server_for",
]
