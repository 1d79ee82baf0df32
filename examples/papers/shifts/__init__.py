"""Corruptions, noise of pixels, edits of text, and the attack of least norm."""

from papers.shifts.corruptions import CORRUPTIONS as CORRUPTIONS
from papers.shifts.corruptions import Corruption as Corruption
from papers.shifts.minimum_norm import FMN as FMN
from papers.shifts.pixel_noise import ImpulseNoise as ImpulseNoise
from papers.shifts.pixel_noise import ShotNoise as ShotNoise
from papers.shifts.text import CharacterEdits as CharacterEdits
from papers.shifts.text import WordEdits as WordEdits
