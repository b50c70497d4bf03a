"""`spacy_biomed.AdamW.v1` and `spacy_biomed.Adamax.v1`, which update an encoder in PyTorch.

Annotations are types and not strings: by them spaCy checks the settings of a class in a config.
"""

import copy
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from thinc.api import Model, Optimizer, torch2xp, xp2torch
from thinc.backends import get_array_ops
from thinc.types import Generator

from ..arrays import FloatsXd

if TYPE_CHECKING:
    import torch

# As in thinc's `Ops.update_averages`.
MAX_AVERAGES_DECAY = 0.9999

# The number of a layer in a parameter's name: `encoder.layer.3.attention...`, `layers.3...`.
LAYER_NUMBER = re.compile(r"\blayers?\.(\d+)\.")


class AdamW(Optimizer):
    """`spacy_biomed.AdamW.v1`: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".

    For thinc's layers it is an ordinary thinc optimizer. A PyTorch encoder passes its whole module
    instead (`step_module`), which PyTorch's fused kernel updates. Parameters with fewer than two
    dimensions (biases and normalisation weights) do not decay.

    Args:
        learn_rate: a number, or a schedule such as thinc's `warmup_linear.v1`.
        beta1, beta2, eps: as in the paper.
        L2: decoupled weight decay.
        grad_clip: maximum norm of the gradient: of all parameters of an encoder together, and of
            each parameter of the heads; 0 for no limit.
        layer_decay: multiplies an encoder's learning rate once for each layer below its last, and
            once more for the embeddings (discriminative fine-tuning: Howard and Ruder 2018,
            "Universal Language Model Fine-tuning for Text Classification").
        use_averages: evaluate and save running averages of the weights instead of the weights, as
            thinc's optimizers do (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima
            and Better Generalization").
        clip_together: clip by the norm of all gradients of an encoder and of the heads on it, as
            papers do.
    """

    __slots__ = ["_clipped_with", "_modules", "clip_together", "layer_decay"]

    def __init__(
        self,
        learn_rate: float | Generator = 5e-5,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        L2: float = 0.01,
        grad_clip: float = 1.0,
        layer_decay: float = 1.0,
        use_averages: bool = False,
        clip_together: bool = False,
    ):
        super().__init__(
            learn_rate,
            L2=L2,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            grad_clip=grad_clip,
            use_averages=use_averages,
        )
        self.layer_decay = layer_decay
        self.clip_together = clip_together
        self._clipped_with: list[Model] = []
        # Each module by its key, and its optimizer in PyTorch.
        self._modules: dict[int, tuple[torch.nn.Module, torch.optim.Optimizer]] = {}

    def __call__(
        self, key: tuple[int, str], weights: FloatsXd, gradient: FloatsXd, *, lr_scale: float = 1.0
    ) -> tuple[FloatsXd, FloatsXd]:
        is_first = self.averages is not None and key not in self.averages
        group = self
        if weights.ndim < 2:  # a group without decay, with the same moments and averages
            group = copy.copy(self)
            group.L2 = 0.0
        weights, gradient = Optimizer.__call__(group, key, weights, gradient, lr_scale=lr_scale)
        if is_first:
            # thinc's begin at zero, so that the first evaluation would be of smaller weights.
            self.averages[key] = weights.copy()
        return weights, gradient

    def clip_with(self, models: list[Model]) -> None:
        """With `clip_together`, clip the next module's gradients together with those of its heads.

        Args:
            models: the heads, which are updated after the module.
        """
        self._clipped_with = models if self.clip_together else []

    def step_module(self, key: int, module: "torch.nn.Module") -> None:
        """Clip the module's gradients to the norm `grad_clip` and update all its parameters.

        Args:
            key: identifies the module between steps. If the key has another module, as after
                loading, the optimizer's state is reset.
            module: the module, with gradients.
        """
        parameters = [p for p in module.parameters() if p.requires_grad and p.grad is not None]
        if not parameters:
            return
        known, optimizer = self._modules.get(key, (None, None))
        if optimizer is None or known is not module:
            optimizer = self._create_torch_optimizer(module)
            self._modules[key] = module, optimizer
        if self.grad_clip:
            self._clip(parameters)
        for group in optimizer.param_groups:
            group["lr"] = self.learn_rate * group["lr_scale"]
        optimizer.step()
        if self.averages is not None:
            self._average(key, module, int(optimizer.state[parameters[0]]["step"]))

    def _clip(self, parameters: "list[torch.nn.Parameter]") -> None:
        """Clip a module's gradients, in place, to the norm of all that are clipped together."""
        import torch

        models, self._clipped_with = self._clipped_with, []
        of_models = [
            xp2torch(node.get_grad(name))
            for model in models
            for node in model.walk()
            for name in node.param_names
            if node.has_grad(name)
        ]
        norm = torch.nn.utils.get_total_norm([*(p.grad for p in parameters), *of_models])
        if norm > self.grad_clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.grad_clip, norm)
            for gradient in of_models:
                gradient.mul_((self.grad_clip / (norm + 1e-6)).to(gradient.device))

    def _average(self, key: int, module: "torch.nn.Module", step: int) -> None:
        """Update the running averages of all parameters, by thinc's rule for this step."""
        from torch.optim.swa_utils import get_ema_multi_avg_fn

        decay = min((1 + step) / (10 + step), MAX_AVERAGES_DECAY)
        trained = [(name, p.detach()) for name, p in module.named_parameters() if p.requires_grad]
        for name, weights in trained:
            if (key, name) not in self.averages:
                self.averages[key, name] = torch2xp(weights.clone())
        averages = [
            xp2torch(self.averages[key, name], device=weights.device) for name, weights in trained
        ]
        get_ema_multi_avg_fn(decay)(averages, [weights for _, weights in trained], None)

    def _parameter_groups(self, module: "torch.nn.Module") -> list[dict[str, Any]]:
        """For each depth a group with and one without weight decay: arguments of an optimizer.

        Embeddings have depth 0, layers count from 1, and what is between has that of what precedes.
        """
        groups: dict[tuple[int, bool], list[torch.nn.Parameter]] = defaultdict(list)
        depth = 0
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                if found := LAYER_NUMBER.search(name):
                    depth = int(found.group(1)) + 1
                groups[depth, parameter.ndim < 2].append(parameter)
        top = max((depth for depth, _ in groups), default=0)
        return [
            {
                "params": parameters,
                "weight_decay": 0.0 if is_vector else self.L2,
                "lr_scale": self.layer_decay ** (top - depth),
            }
            for (depth, is_vector), parameters in sorted(groups.items())
        ]

    def torch_state(self) -> "dict[int, dict[str, torch.Tensor]]":
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
            for key, (_, optimizer) in self._modules.items()
        }

    def load_torch_state(
        self, key: int, module: "torch.nn.Module", state: "dict[str, torch.Tensor]"
    ) -> None:
        """Restore a module's state from `torch_state`; its key may have changed."""
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for place, value in state.items():
            number, _, name = place.partition(".")
            moments.setdefault(int(number), {})[name] = value
        optimizer = self._create_torch_optimizer(module)
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self._modules[key] = module, optimizer

    def _create_torch_optimizer(self, module: "torch.nn.Module") -> "torch.optim.Optimizer":
        import torch

        return torch.optim.AdamW(
            self._parameter_groups(module), betas=(self.b1, self.b2), eps=self.eps, fused=True
        )


class Adamax(AdamW):
    """`spacy_biomed.Adamax.v1` (Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization").

    Algorithm 2 of the paper, with decoupled weight decay. `eps` is added to each gradient's
    absolute value. Otherwise everything is as in `AdamW`.
    """

    __slots__ = []

    def __call__(
        self, key: tuple[int, str], weights: FloatsXd, gradient: FloatsXd, *, lr_scale: float = 1.0
    ) -> tuple[FloatsXd, FloatsXd]:
        if gradient.size == 0:
            return weights, gradient
        ops = get_array_ops(weights)
        self.nr_update[key] += 1
        step, rate = self.nr_update[key], lr_scale * self.learn_rate
        if self.grad_clip:
            gradient = ops.clip_gradient(gradient, self.grad_clip)
        if key not in self.mom1:
            self.mom1[key], self.mom2[key] = ops.alloc1f(weights.size), ops.alloc1f(weights.size)
        flat, mean, largest = gradient.ravel(), self.mom1[key], self.mom2[key]
        mean *= self.b1
        mean += (1 - self.b1) * flat
        largest[:] = ops.xp.maximum(self.b2 * largest, abs(flat) + self.eps)
        if weights.ndim >= 2:
            weights *= 1 - rate * self.L2
        weights -= (rate / (1 - self.b1**step) * mean / largest).reshape(weights.shape)
        gradient *= 0
        if self.averages is not None:
            if key not in self.averages:
                self.averages[key] = weights.copy()
            ops.update_averages(self.averages[key], weights, step)
        return weights, gradient

    def _create_torch_optimizer(self, module: "torch.nn.Module") -> "torch.optim.Optimizer":
        import torch

        # PyTorch's own weight decay of Adamax is not decoupled.
        groups = [
            {**group, "weight_decay": 0.0, "decay": group["weight_decay"]}
            for group in self._parameter_groups(module)
        ]
        optimizer = torch.optim.Adamax(groups, betas=(self.b1, self.b2), eps=self.eps)
        optimizer.register_step_pre_hook(_decay)
        return optimizer


def _decay(optimizer: "torch.optim.Optimizer", *_: object) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.detach().mul_(1 - group["lr"] * group["decay"])


# The names of earlier versions.
AdamW_v1, Adamax_v1 = AdamW, Adamax
