"""The gallery's cards: their order, and one panel of a figure, drawn so that it can be read."""

import re
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.gridspec import GridSpec
from sphinx_gallery.scrapers import matplotlib_scraper

# For each example the number of a figure, and of an axes of it. None: the whole figure.
# An example that is not named has its first figure.
PANELS = {
    "plot_certified_maximum": (1, 0),
    "plot_committee": (1, 3),
    "plot_content_on_two_spectrometers": (1, 0),
    "plot_drifting_scanner": (1, -1),
    "plot_early_stopping_digits": (1, -1),
    "plot_few_labels": (1, -1),
    "plot_image_classifier": (1, 1),
    "plot_models_in_use": (1, 0),
    "plot_new_instrument": (1, 0),
    "plot_search_mixed_grid": (1, 1),
    "plot_search_spurious_views": (1, 1),
    "plot_training_with_few_labels": (1, 0),
    "plot_two_scanners": (1, -1),
    "plot_two_spectrometers": (2, 0),
}
_LISTED = re.findall(r"plot_\w+", Path(__file__).with_name("examples.rst").read_text())
# Inches; a card has 400 x 280 pixels.
_SIZE = (4, 2.8)
# More labels than this overlap on a card.
_MOST_LABELS = 8


def as_listed(path):
    """Return the place of an example in examples.rst, by which cards are sorted."""
    return _LISTED.index(Path(path).stem)


def scraper(block, block_vars, gallery_conf):
    """Save the figures of a block as sphinx-gallery does, and the panel for the card."""
    before = len(block_vars["image_path_iterator"])
    figures = [plt.figure(number) for number in plt.get_fignums()]
    shown = matplotlib_scraper(block, block_vars, gallery_conf)
    name = Path(block_vars["src_file"]).stem
    number, panel = PANELS.get(name, (1, None))
    if before < number <= before + len(figures):
        if panel is None:
            block_vars["file_conf"]["thumbnail_number"] = number
        else:
            file = Path("gallery", "images", f"card_{name}.png")
            _draw_alone(figures[number - before - 1], panel, gallery_conf["src_dir"] / file)
            block_vars["file_conf"]["thumbnail_path"] = str(file)
    return shown


def _draw_alone(figure, panel, file):
    """Draw one axes of a figure, and those at the same place, without the title and legends."""
    shown = figure.axes[panel]
    place = shown.get_position().bounds
    kept = [axes for axes in figure.axes if axes.get_position().bounds == place]
    # Labels that a panel shares with others are drawn beside another one, or below the figure.
    beside = [axes.get_ylabel() for axes in shown.get_shared_y_axes().get_siblings(shown)]
    shown.set_ylabel(shown.get_ylabel() or max(beside))
    shown.set_xlabel(shown.get_xlabel() or figure.get_supxlabel())
    shown.tick_params(labelleft=True)
    for artist in (*figure.axes, *figure.legends, *figure.texts):
        if artist not in kept:
            artist.remove()
    figure.suptitle("")
    [cell] = GridSpec(1, 1, figure=figure)
    for axes in kept:
        axes.set_subplotspec(cell)
        for side in ("left", "center", "right"):
            axes.set_title("", loc=side)
        if axes.get_legend():
            axes.get_legend().remove()
        if len(axes.get_yticks()) > _MOST_LABELS:
            axes.tick_params(labelleft=False)
    figure.set_size_inches(_SIZE)
    figure.set_layout_engine("constrained")
    figure.savefig(file, dpi=100)
