"""Formulas as MathML, which browsers draw by themselves: nothing to load, and nothing to install."""

from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("native", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True}


def _inline(writer: Any, node: Element) -> None:
    writer.body.append(tex2mathml(node.astext()))
    raise SkipNode


def _block(writer: Any, node: Element) -> None:
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise SkipNode
