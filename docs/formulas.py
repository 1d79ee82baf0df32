"""Formulas as MathML: browsers show them by themselves, without a script or a network."""

import re
import unicodedata

from docutils import nodes
from latex2mathml.converter import convert


def as_mathml(formula, block=False):
    """Convert a formula from LaTeX, in what all browsers know: MathML Core."""
    text = convert(formula, display="block" if block else "inline")
    # Letters of other alphabets have code points of their own; only "normal" stays an attribute.
    text = re.sub(r'<(\w+) mathvariant="(?!normal)([\w-]+)">(.)</\1>', _of_alphabet, text)
    # Functions stand apart from what is beside them.
    text = re.sub(
        r"<m([io])>([A-Za-z]{2,})</m\1>", r'<mo lspace="0.17em" rspace="0.17em">\2</mo>', text
    )
    # Without a font for formulas no line over a sum is drawn at its length, but a border is.
    over = r'<mover>(<mrow>(?:(?!<mover>).)*?</mrow>)<mo accent="true">&#x02015;</mo></mover>'
    return re.sub(over, r'<mrow class="overline">\1</mrow>', text)


def _of_alphabet(found):
    tag, alphabet, letter = found.groups()
    name = unicodedata.name(letter).removeprefix("LATIN ").replace("LETTER ", "")
    letter = unicodedata.lookup(f"MATHEMATICAL {alphabet.upper()} {name}")
    return f"<{tag}>{letter}</{tag}>"


def visit(writer, node):
    block = isinstance(node, nodes.math_block)
    tag = "div" if block else "span"
    writer.body.append(f'<{tag} class="math">{as_mathml(node.astext(), block)}</{tag}>')
    raise nodes.SkipNode
