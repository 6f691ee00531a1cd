"""The words of `{{name}}` and `{{text}}`: plain ASCII without quotes or backslashes, so that JSON stays valid."""

from typing import Final

_NAMES: Final = (
    "Ada Amir Ana Arun Aya Ben Carla Chen Dana David Elif Emma Eva Farid Fatima Felix Finn Grace Hana Hugo Ida Igor "
    "Ines Ivan Jana Jonas Jun Kofi Lea Leon Lina Luca Maja Marco Maria Mei Mila Nia Nils Noor Olga Omar Otto Paul Priya "
    "Ravi Rosa Ruth Sami Sara Sofia Sven Tara Theo Tom Uma Vera Wei Yara Yusuf Zoe"
)

_WORDS: Final = (
    "acre amber anchor apple arrow basin birch bridge cabin canal cedar cliff cloud copper coral creek dune ember fern "
    "field flint forest garden glacier grain granite harbor hazel heron hill island ivory lake lantern ledge lemon maple "
    "marsh meadow mill moss oak ocean olive orchard path pebble pine plain pond quarry rain reed ridge river salt shore "
    "slate snow spring stone summit thorn tide timber vale valley willow wind yak"
)
NAMES: Final = _NAMES.split()
WORDS: Final = _WORDS.split()
