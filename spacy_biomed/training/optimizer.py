"""`spacy_biomed.AdamW.v1`: AdamW that updates a PyTorch encoder in PyTorch."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from thinc.api import Optimizer, torch2xp, xp2torch
from thinc.types import FloatsXd, Generator

if TYPE_CHECKING:
    import torch

# As in thinc's `Ops.update_averages`.
MAX_AVERAGES_DECAY = 0.9999

# The number of a layer in a parameter's name: `encoder.layer.3.attention...`, `layers.3...`.
LAYER_NUMBER = re.compile(r"\blayers?\.(\d+)\.")


class AdamW(Optimizer):
    """AdamW (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization").

    For thinc's layers it is an ordinary thinc optimizer. A PyTorch encoder passes its whole module
    instead (`step_module`), which is updated by PyTorch's fused kernel with the same learning rate.
    Parameters with fewer than two dimensions (biases and normalisation weights) do not decay.

    Attributes:
        learn_rate, layer_decay: see `AdamW_v1`.
        settings: other arguments of thinc's `Optimizer`.
    """

    __slots__ = ["_torch_optimizers", "layer_decay"]

    def __init__(self, learn_rate: float | Generator, *, layer_decay: float = 1.0, **settings: Any):
        super().__init__(learn_rate, L2_is_weight_decay=True, **settings)
        self.layer_decay = layer_decay
        self._torch_optimizers: dict[int, tuple[torch.nn.Module, torch.optim.AdamW]] = {}

    def __call__(
        self,
        key: tuple[int, str],
        weights: FloatsXd,
        gradient: FloatsXd,
        *,
        lr_scale: float = 1.0,
    ) -> tuple[FloatsXd, FloatsXd]:
        decay: float = self.L2  # type: ignore[has-type]
        if weights.ndim < 2:
            self.L2 = 0.0  # type: ignore[misc]
        try:
            return super().__call__(key, weights, gradient, lr_scale=lr_scale)
        finally:
            self.L2 = decay  # type: ignore[misc]

    def step_module(self, key: int, module: torch.nn.Module) -> None:
        """Clip the module's gradients to the norm `grad_clip` and update all its parameters.

        Args:
            key: identifies the module between steps. If the key has another module, as after
                loading, the optimizer's state is reset.
            module: the module, with gradients.
        """
        import torch

        parameters = [p for p in module.parameters() if p.requires_grad and p.grad is not None]
        if not parameters:
            return
        known, optimizer = self._torch_optimizers.get(key, (None, None))
        if optimizer is None or known is not module:
            optimizer = self._create_torch_optimizer(module)
            self._torch_optimizers[key] = module, optimizer
        if self.grad_clip:
            norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
            if norm > self.grad_clip:
                torch.nn.utils.clip_grads_with_norm_(parameters, self.grad_clip, norm)
        for group in optimizer.param_groups:
            group["lr"] = self.learn_rate * group["lr_scale"]
        optimizer.step()
        if self.averages is not None:
            self._average(key, module, int(optimizer.state[parameters[0]]["step"]))

    def _average(self, key: int, module: torch.nn.Module, step: int) -> None:
        """Update the running averages of all parameters, by thinc's rule.

        Args:
            step: number of updates so far, including this one.
        """
        decay = min((1 + step) / (10 + step), MAX_AVERAGES_DECAY)
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            weights = parameter.detach()
            if (key, name) not in self.averages:
                self.averages[key, name] = torch2xp(weights.clone())
            average = xp2torch(self.averages[key, name], device=weights.device)
            average.lerp_(weights, 1 - decay)

    def _parameter_groups(self, module: torch.nn.Module) -> list[dict[str, Any]]:
        """Parameter groups: for each depth one with and one without weight decay."""
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        depths = layer_depths(list(trained))
        top = max(depths.values(), default=0)
        groups: dict[tuple[int, bool], list[torch.nn.Parameter]] = defaultdict(list)
        for name, parameter in trained.items():
            groups[depths[name], parameter.ndim < 2].append(parameter)
        return [
            {
                "params": parameters,
                "weight_decay": 0.0 if is_vector else self.L2,
                "lr_scale": self.layer_decay ** (top - depth),
            }
            for (depth, is_vector), parameters in sorted(groups.items())
        ]

    def torch_state(self) -> dict[int, dict[str, torch.Tensor]]:
        """The moments and step counts of all modules updated so far.

        Returns:
            for each module's key the values, by the parameter's number and the name: `12.exp_avg`.
        """
        return {
            key: {
                f"{number}.{name}": value
                for number, moments in optimizer.state_dict()["state"].items()
                for name, value in moments.items()
            }
            for key, (_, optimizer) in self._torch_optimizers.items()
        }

    def load_torch_state(
        self, key: int, module: torch.nn.Module, state: dict[str, torch.Tensor]
    ) -> None:
        """Restore a module's state from `torch_state`; its key may have changed."""
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for place, value in state.items():
            number, _, name = place.partition(".")
            moments.setdefault(int(number), {})[name] = value
        optimizer = self._create_torch_optimizer(module)
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._torch_optimizers[key] = module, optimizer

    def _create_torch_optimizer(self, module: torch.nn.Module) -> torch.optim.AdamW:
        import torch

        return torch.optim.AdamW(
            self._parameter_groups(module), betas=(self.b1, self.b2), eps=self.eps, fused=True
        )


def layer_depths(names: list[str]) -> dict[str, int]:
    """The depth of each parameter of an encoder, by its name.

    The embeddings have depth 0, and layers count from 1. A parameter that belongs to no layer has
    the depth of the parameter before it.

    Examples:
        >>> layer_depths(["embeddings.word.weight", "encoder.layer.0.bias", "encoder.layer.1.bias"])
        {'embeddings.word.weight': 0, 'encoder.layer.0.bias': 1, 'encoder.layer.1.bias': 2}
    """
    depths, current = {}, 0
    for name in names:
        found = LAYER_NUMBER.search(name)
        current = int(found.group(1)) + 1 if found else current
        depths[name] = current
    return depths


def AdamW_v1(
    learn_rate: float | Generator = 5e-5,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    L2: float = 0.01,
    grad_clip: float = 1.0,
    layer_decay: float = 1.0,
    use_averages: bool = False,
) -> AdamW:
    """Create the optimizer.

    Args:
        learn_rate: a number, or a schedule such as thinc's `warmup_linear.v1`.
        beta1, beta2, eps: as in the paper.
        L2: decoupled weight decay.
        grad_clip: maximum norm of the gradient: of all parameters of an encoder together, and of
            each parameter of the heads; 0 for no limit.
        layer_decay: multiplies an encoder's learning rate once for each layer below its last, and
            once more for the embeddings (Howard and Ruder 2018, "Universal Language Model
            Fine-tuning for Text Classification", discriminative fine-tuning); 1 for the same rate
            in all layers.
        use_averages: evaluate and save running averages of the weights instead of the weights, as
            thinc's optimizers do (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima
            and Better Generalization"). After t updates an average moves towards the weights by
            the fraction 9 / (t + 10), but at least 0.0001.
    """
    return AdamW(
        learn_rate,
        layer_decay=layer_decay,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        L2=L2,
        grad_clip=grad_clip,
        use_averages=use_averages,
    )
