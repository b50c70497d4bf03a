"""The mapping of the student's layers to layers of the teacher (equation 5 of `map_layers`)."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BiomedError


def map_layers(student: int, teacher: int, layers: Sequence[int] | None = None) -> list[int]:
    """The map g of "On the Effectiveness of Compact Biomedical Transformers", equation 5.

    The list is g(1) to g(student). Layers count from 1; 0 is the embedding layer, and g(0) = 0. By
    default the student's layers map to every k-th layer of the teacher, the last to the last. If
    the number of layers is not a multiple, the positions are rounded up. `layers` are others in
    their place.

    Examples:
        >>> map_layers(6, 12)
        [2, 4, 6, 8, 10, 12]
        >>> map_layers(4, 6)
        [2, 3, 5, 6]
    """
    if layers is None:
        if student > teacher:
            raise BiomedError(
                f"the student has {student} layers and the teacher {teacher}: set layer_map to the "
                "teacher's layers to compare with"
            )
        return [-(-layer * teacher // student) for layer in range(1, student + 1)]
    if len(layers) != student:
        raise BiomedError(
            f"layer_map = {list(layers)}: {len(layers)} layers for a student of {student}; give "
            "one of the teacher's for each of the student's"
        )
    check_layers("layer_map", layers, teacher)
    return list(layers)


def check_layers(name: str, layers: Sequence[int], teacher: int) -> None:
    """Check the layers of a setting; raise BiomedError if the teacher does not have one of them."""
    for layer in layers:
        if not 1 <= layer <= teacher:
            raise BiomedError(
                f"{name} = {list(layers)}: the teacher has no layer {layer}; its layers are 1 to "
                f"{teacher}"
            )
