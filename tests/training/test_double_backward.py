"""Double backward with native kernels against autograd's own, in float64."""

import pytest
import torch
from torch import Tensor, nn

from shieldwall.training import double_backward
from shieldwall.training.double_backward import NativeDoubleBackward


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.Softplus(),
        nn.Conv2d(4, 6, (3, 1), groups=2, dilation=(1, 2)), nn.Softplus(),
        nn.Conv2d(6, 3, 1, bias=False), nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def norm_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 5, 3, bias=False), nn.BatchNorm2d(5), nn.Softplus(), nn.MaxPool2d(2),
        nn.Conv2d(5, 4, 2, bias=False), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten(),
        nn.LazyLinear(6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3),
    )  # fmt: skip


def same_padding() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding="same"), nn.Softplus(), nn.Flatten(), nn.LazyLinear(3))


def pool_net() -> nn.Module:
    """On grey images, whose input gradient is computed block by block."""
    return nn.Sequential(
        nn.Conv2d(1, 5, (5, 3), padding=(1, 2)), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1),
        nn.Conv2d(5, 4, 3), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU(inplace=True), nn.Flatten(),
        nn.LazyLinear(6), nn.Softplus(), nn.Linear(6, 3),
    )  # fmt: skip


def gradients(net: nn.Module, x: Tensor, native: bool) -> list[Tensor]:
    """Parameter and input gradients of sum ||grad_x f||, plus the loss itself, so both passes matter."""
    net.zero_grad()
    x = x.clone().requires_grad_()

    def loss() -> Tensor:
        out = net(x)
        g = torch.autograd.grad(out.square().sum(), x, create_graph=True)[0]
        return g.flatten(1).norm(dim=1).sum() + out.sin().sum()

    if native:
        with NativeDoubleBackward():
            total = loss()
    else:
        total = loss()
    total.backward()
    assert x.grad is not None
    return [x.grad, *(parameter.grad.clone() for parameter in net.parameters())]


@pytest.mark.parametrize("make", [conv_net, norm_net, same_padding, pool_net])
@pytest.mark.parametrize("training", [True, False])
def test_parameter_gradients_are_autograd_s(make, training: bool) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    net = make().double()
    x = torch.randn(4, 1 if make is pool_net else 2, 8, 8, dtype=torch.float64)
    net(x)
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.uniform_(module.weight, 0.5, 2.0)
    net.train(training)
    expected = gradients(net, x, native=False)
    found = gradients(net, x, native=True)
    for a, b in zip(expected, found, strict=True):
        assert float(a.abs().max()) > 1e-6
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_plain_gradients_are_autograd_s() -> None:
    torch.manual_seed(2)
    net = norm_net().double()
    x = torch.randn(4, 2, 8, 8, dtype=torch.float64)
    net(x).square().sum().backward()
    expected = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    with NativeDoubleBackward():
        out = net(x)
    out.square().sum().backward()
    for a, parameter in zip(expected, net.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, a, rtol=1e-10, atol=1e-10)


def test_the_images_gradient_is_computed_only_where_it_is_asked_for(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    net, x = conv_net(), torch.randn(4, 2, 8, 8, requires_grad=True)
    net(x)
    with NativeDoubleBackward():
        out = net(x).square().sum()
    expected = torch.autograd.grad(net(x).square().sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(out, x, retain_graph=True)[0], expected)
    masks = []
    plain = double_backward._convolution_backward

    def spy(*args):  # type: ignore[no-untyped-def]
        masks.append(args[-1])
        return plain(*args)

    monkeypatch.setattr(double_backward, "_convolution_backward", spy)
    out.backward(inputs=list(net.parameters()))
    assert [mask[0] for mask in masks] == [True, True, False]


def test_running_statistics_are_updated_once() -> None:
    torch.manual_seed(3)
    x = torch.randn(4, 2, 8, 8)
    plain, native = norm_net(), norm_net()
    plain(x), native(x)
    native.load_state_dict(plain.state_dict())
    plain(x)
    with NativeDoubleBackward():
        native(x)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(native.state_dict()[name], value)


def test_reduced_precision_runs_and_stays_finite() -> None:
    torch.manual_seed(4)
    net = norm_net()
    x = torch.randn(4, 2, 8, 8)
    net(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradients(net, x, native=True)
    assert all(bool(g.isfinite().all()) for g in found)


def test_the_native_kernels_are_the_ones_that_run() -> None:
    net = norm_net()
    x = torch.randn(4, 2, 8, 8, requires_grad=True)
    net(x)
    with NativeDoubleBackward():
        out = net(x)
    seen, left = set(), [out.grad_fn]
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            left += [following for following, _ in node.next_functions]
    names = sorted(type(node).__name__ for node in seen)
    assert names.count("_ConvolutionBackward") == 2
    assert names.count("_BatchNormBackward") == 3
    assert not [name for name in names if name in ("ConvolutionBackward0", "NativeBatchNormBackward0")]
