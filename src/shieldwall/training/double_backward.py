"""Gradients of input gradients at the speed of ordinary ones.

DRT and GAL minimise functions of g = grad_x f(x), so training differentiates a backward pass. Autograd does
that exactly but slowly: for a convolution's weights it runs convolutions with image-sized kernels, and for
batch normalisation some forty elementwise kernels. Here both use the kernels of ordinary training:

    convolution   gI = conv_T(gO, w), so for a cotangent v of gI:
                  dgO = conv(v, w),  dw = conv_weight_gradient(v, gO)
    batch norm    gI = w r (gO - mean(gO) - x^ mean(gO x^)),  x^ = (x - mean(x)) r,  r = 1 / std(x):
                  two sweeps over the activations, derived in `_batch_norm_second`
    ReLU, pool    gI = J^T gO with J constant around x, so dgO = J v, and x, detached, gets no dx = 0

Results are autograd's up to rounding. A backward pass that is itself to be differentiated
(create_graph=True) has the gradients of inputs alone, not those of weights; one that stops at the weights
stops before the images.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._triton import has_triton

Options = tuple[list[int], list[int], list[int], int]  #: a convolution's stride, padding, dilation and groups

BLOCK = 4  #: pixels each way that are computed together where an input gradient has one channel, on a CPU


class NativeDoubleBackward(TorchFunctionMode):
    """Forward passes inside record layers whose double backward is fast."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


def _conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    if isinstance(padding, str):
        return torch.conv2d(x, weight, bias, stride, padding, dilation, groups)
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    return _Convolution.apply(x, weight, bias, (_pair(stride), _pair(padding), _pair(dilation), groups))  # type: ignore[no-untyped-call]


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _convolution_backward(grad: Tensor, x: Tensor, weight: Tensor, options: Options, mask: list[bool]) -> Any:
    """The gradients of input, weight and bias, those that the mask asks for."""
    *geometry, groups = options
    own = [weight.shape[0]], *geometry, False, [0, 0], groups, mask
    return torch.ops.aten.convolution_backward(grad, x, weight, *own)


class _Convolution(torch.autograd.Function):
    """out = conv(x, weight) + bias"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.options = options
        return torch.conv2d(x, weight, bias, *options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _InputGradient.apply(grad, weight, x, ctx.options), None, None, None  # type: ignore[no-untyped-call]
        mask = [_goes_on_to_input(ctx), *ctx.needs_input_grad[1:3]]
        return *_convolution_backward(grad, x, weight, ctx.options, mask), None


def _goes_on_to_input(ctx: Any) -> bool:
    """Whether this backward pass needs the first input's gradient: of the images training does not."""
    try:
        return ctx.needs_input_grad[0] and torch._C._will_engine_execute_node(ctx.next_functions[0][0])
    except RuntimeError:  # it does not say for a leaf whose gradient is asked for by autograd.grad
        return True


class _InputGradient(torch.autograd.Function):
    """gI = conv_T(gO, weight), linear in both"""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, weight: Tensor, x: Tensor, options: Options) -> Any:
        ctx.save_for_backward(grad, weight)
        ctx.options = options
        if grad.device.type == "cpu" and _can_be_blocks(x, weight, options):
            return _input_gradient_by_blocks(grad, weight, options[1])
        return _convolution_backward(grad, x, weight, options, [True, False, False])[0]

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        grad, weight = ctx.saved_tensors
        for_weight = _convolution_backward(grad, v, weight, ctx.options, [False, True, False])[1]
        return torch.conv2d(v, weight, None, *ctx.options), for_weight, None, None


def _can_be_blocks(x: Tensor, weight: Tensor, options: Options) -> bool:
    """Whether the input is grey and consists of blocks, and the convolution is a plain one."""
    stride, padding, dilation, _ = options
    is_plain = stride == dilation == [1, 1] and max(padding) < min(weight.shape[2:])
    return is_plain and weight.shape[1] == 1 and not any(size % BLOCK for size in x.shape[2:])


def _input_gradient_by_blocks(grad: Tensor, weight: Tensor, padding: list[int]) -> Tensor:
    """gI with each pixel of a block as a channel: its one channel would leave a vector register empty."""
    kernel, shifts = weight.flip(2, 3).transpose(0, 1), range(BLOCK)
    kernels = [F.pad(kernel, (j, BLOCK - 1 - j, i, BLOCK - 1 - i)) for i in shifts for j in shifts]
    rest = [size - 1 - pad for size, pad in zip(weight.shape[2:], padding, strict=True)]
    return F.pixel_shuffle(F.conv2d(grad, torch.cat(kernels), stride=BLOCK, padding=rest), BLOCK)


class _Piecewise(torch.autograd.Function):
    """out = f(x) with a Jacobian J that is constant around x: gI = J^T gO

    `forward` gives the outputs, of which only the first has a gradient, and what `gradient` takes after gO.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Callable[..., Any], gradient: Callable[..., Tensor]) -> Any:
        outputs, kept = forward(x)
        ctx.save_for_backward(*kept)
        ctx.gradient = gradient
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> Any:
        return ctx.gradient(grad, *(kept.detach() for kept in ctx.saved_tensors)), None, None


def _relu(x: Tensor, inplace: bool = False) -> Any:
    def forward(x: Tensor) -> Any:
        out = torch.relu(x)
        return (out,), (out,)

    return _Piecewise.apply(x, forward, lambda grad, out: torch.ops.aten.threshold_backward(grad, out, 0))[0]  # type: ignore[no-untyped-call]


def _max_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    options = *map(_pair, (kernel_size, stride or kernel_size, padding, dilation)), ceil_mode

    def forward(x: Tensor) -> Any:
        out, indices = torch.ops.aten.max_pool2d_with_indices(x, *options)
        return (out, indices), (x, indices)

    def gradient(grad: Tensor, x: Tensor, indices: Tensor) -> Any:
        return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *options, indices)

    out, indices = _Piecewise.apply(x, forward, gradient)  # type: ignore[no-untyped-call]
    return (out, indices) if return_indices else out


def _batch_norm(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    if not training or weight is None or bias is None:
        return F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return _BatchNorm.apply(x, weight, bias, running_mean, running_var, momentum, eps)  # type: ignore[no-untyped-call]


class _BatchNorm(torch.autograd.Function):
    """out = weight x^ + bias, with the batch's own mean and variance"""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor,
        running_mean: Tensor | None, running_var: Tensor | None, momentum: float, eps: float,
    ) -> Tensor:  # fmt: skip
        options = running_mean, running_var, True, momentum, eps
        out, mean, r = torch.native_batch_norm(x, weight, bias, *options)
        ctx.save_for_backward(x, weight, mean, r)
        ctx.eps = eps
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight, mean, r = ctx.saved_tensors
        if torch.is_grad_enabled():
            for_x = _BatchNormInputGradient.apply(grad, x, weight, mean, r, ctx.eps)  # type: ignore[no-untyped-call]
            return for_x, None, None, None, None, None, None
        own = None, None, mean, r, True, ctx.eps, list(ctx.needs_input_grad[:3])
        return *torch.ops.aten.native_batch_norm_backward(grad, x, weight, *own), None, None, None, None


class _BatchNormInputGradient(torch.autograd.Function):
    """gI = weight r (gO - mean(gO) - x^ mean(gO x^))"""

    @staticmethod
    def forward(
        ctx: Any, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, r: Tensor, eps: float
    ) -> Any:
        ctx.save_for_backward(grad, x, weight, mean, r)
        own = None, None, mean, r, True, eps, [True, False, False]
        return torch.ops.aten.native_batch_norm_backward(grad, x, weight, *own)[0]

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Any:
        return *_fused(v.device.type)(v, *ctx.saved_tensors), None, None, None


_REPLACED: dict[Any, Callable[..., Any]] = {
    torch.conv2d: _conv2d, F.batch_norm: _batch_norm, F.max_pool2d: _max_pool2d,
    F.relu: _relu, torch.relu: _relu,
}  # fmt: skip


@cache
def _fused(device: str) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The formula as it is, or compiled into two sweeps where there is a compiler for the device."""
    if device == "cuda" and has_triton():
        return torch.compile(_batch_norm_second, dynamic=False)
    return _batch_norm_second


def _batch_norm_second(
    v: Tensor, grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, r: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The derivative of <v, gI> with respect to gO, x and weight.

    With channel means a = <gO>, c = <gO x^>, b = <v>, d = <v x^>, e = <v gO> and q = e - a b - c d
    (so that <v, gI> is M weight r q over M activations per channel):

        gO:      weight r (v - b - x^ d)            as the map from gO to gI is self-adjoint
        weight:  M r q
        x:       -weight r^2 (c (v - b - x^ d) + d (gO - a - x^ c) + x^ q)

    The first two terms of x come from x^ inside gI, projected as any gradient through x^ is; the last
    one from r, as dr/dx = -r^2 x^ / M.
    """
    dims = (0, *range(2, x.ndim))
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    wide = torch.promote_types(x.dtype, torch.float32)
    v, grad, x_hat = v.to(wide), grad.to(wide), (x.to(wide) - mean.view(shape)) * r.view(shape)
    a, b = grad.mean(dims), v.mean(dims)
    c, d, e = (grad * x_hat).mean(dims), (v * x_hat).mean(dims), (v * grad).mean(dims)
    q = e - a * b - c * d
    scale = (weight * r).view(shape)
    v_projected = v - b.view(shape) - x_hat * d.view(shape)
    for_grad = scale * v_projected
    grad_projected = grad - a.view(shape) - x_hat * c.view(shape)
    moved = c.view(shape) * v_projected + d.view(shape) * grad_projected + x_hat * q.view(shape)
    for_x = -(scale * r.view(shape)) * moved
    return for_grad.to(x.dtype), for_x.to(x.dtype), (r * q * (x.numel() / len(q))).to(weight.dtype)
