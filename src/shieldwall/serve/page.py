"""The page with what it needs to know of the runs, as JSON inside it."""

from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from shieldwall.serve.handwriting import FRAMES
from shieldwall.serve.images import MOST_BYTES
from shieldwall.serve.messages import SAMPLES
from shieldwall.serve.runs import Offer

STEPS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
"""What the slider of n offers."""
_SPOKEN = {"we": "weighted (WE)", "mme": "max-margin (MME)", "eas": "after smoothing (EAS)"}


def page(offer: Offer) -> str:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files("shieldwall.serve").joinpath("static/page.html.j2").read_text("utf-8")
    )
    frame = FRAMES.get(offer.data)
    channels, height, width = offer.shape
    known = {
        "data": offer.data,
        "classes": offer.classes,
        "channels": channels,
        "height": height,
        "width": width,
        "tests": len(offer.test),
        "pen": frame.pen if frame else None,
        "steps": STEPS,
        "mostBytes": MOST_BYTES,
        "samples": SAMPLES,
        "runs": [
            {
                "family": run.family,
                "sigma": run.sigma,
                "votes": [{"name": name, "title": _title(name)} for name in run.votes],
            }
            for run in offer.runs
        ],
    }
    return template.render(known=known, draws=frame is not None, tests=len(offer.test), data=offer.data)


def _title(vote: str) -> str:
    return _SPOKEN.get(vote) or vote.replace("member-", "member ").replace("we-", "WE, weights by ")
