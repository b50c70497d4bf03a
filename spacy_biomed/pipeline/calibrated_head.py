"""The base class of heads whose probabilities are fitted on a development corpus."""

from __future__ import annotations

from typing import Any

from thinc.api import Optimizer
from thinc.types import Floats1d, Ints1d

from ..models.confidence_curves import LabelCurves
from .encoder_head import EncoderHead


class CalibratedHead(EncoderHead):
    """A head with calibrated probabilities; `calibrate` keeps their curves in its settings.

    Further training drops them: they are not true of other weights.
    """

    _curves: tuple[dict[str, Any], LabelCurves] | None = None

    @property
    def is_calibrated(self) -> bool:
        """Whether probabilities are calibrated, and not the model's own."""
        return self.cfg["calibration"] is not None

    def calibrate(self, probability: Floats1d, label: Ints1d) -> Floats1d:
        """Calibrate probabilities, (predictions,); without calibration, they stay as they are.

        `label` has the place of each prediction's label among the component's, (predictions,).
        """
        fitted = self.cfg["calibration"]
        if fitted is None:
            return probability
        if self._curves is None or self._curves[0] is not fitted:
            self._curves = fitted, LabelCurves.from_dict(fitted["curves"])
        return self._curves[1](probability, label, self.labels)

    def forget_calibration(self) -> None:
        """Drop what `calibrate` has fitted."""
        self.cfg["calibration"] = None

    def finish_update(self, sgd: Optimizer) -> None:
        if self._has_gradient:
            self.forget_calibration()
        super().finish_update(sgd)
