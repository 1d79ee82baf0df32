"""A device that only pretends to be one: tensors that compute on the CPU and say ``cuda:0``.

Within ``with PretendDevice() as device`` torch finds a CUDA device, and tensors moved there are
`PretendTensor`.  They refuse what tensors of a GPU refuse: to meet tensors of the CPU, and to
become numpy arrays.  ``device.counts`` counts what takes long on a GPU.
"""

import math
from contextlib import ExitStack, nullcontext
from dataclasses import astuple, dataclass, replace
from functools import cache
from unittest import mock

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten


@dataclass
class Counts:
    """What operations on the device were asked to do."""

    #: Kernels that were launched; views cost nothing.
    launches: int = 0
    #: How often the CPU waited for the device: for a number, a copy, or the shape of a result.
    waits: int = 0
    #: Copies from the CPU to the device. The CPU waits for each, since memory is not pinned.
    copies: int = 0
    #: Bytes that kernels read and wrote.
    read: int = 0
    written: int = 0

    @property
    def synchronisations(self):
        return self.waits + self.copies

    @property
    def bytes(self):
        return self.read + self.written

    def __sub__(self, other):
        return Counts(*np.subtract(astuple(self), astuple(other)))

    def copy(self):
        return replace(self)


# The device that is in use, so that tensors find its counts.
_counts = Counts()

_SCALARS = aten._local_scalar_dense, aten.equal
# The shape of the result is known only when it is computed.
_OF_UNKNOWN_SHAPE = (
    *(aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.unique_consecutive),
    aten.bincount,
)
_FREE = (
    *(aten.empty, aten.new_empty, aten.empty_like, aten.empty_strided, aten.new_empty_strided),
    *(aten._local_scalar_dense, aten._unsafe_view, aten.detach, aten.lift_fresh, aten.squeeze_),
    *(aten.unsqueeze_, aten.t_, aten.transpose_),
)
_MORE_LAUNCHES = {aten.segment_reduce: 2, aten.sort: 4, aten.cumsum: 2, aten._unique2: 6}
# These take no number of the CPU among tensors of the device.
_STRICT = aten.cat, aten.stack, aten.mm, aten.bmm, aten.dot, aten.mv, aten.addmm, aten.index_select


class PretendTensor(torch.Tensor):
    """A tensor of the pretended device; `inner` holds its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device="cpu",
        )

    def __init__(self, inner):
        self.inner = inner

    device = property(lambda self: CUDA)
    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)

    def get_device(self):
        return CUDA.index

    def cpu(self):
        return _to_host(self)

    def tolist(self):
        return _to_host(self).tolist()

    def numpy(self, **_):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )

    def __array__(self, *_, **__):
        return self.numpy()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = func.overloadpacket
        if name is aten.logsumexp:  # the only one used here that launches others for its scores
            return _logsumexp(*args, **kwargs)
        if name is aten.copy_:
            return _copy_into(*args)
        if name in (aten.index, aten.index_put_):
            args = (args[0], _counted_indices(args[1]), *args[2:])
        tensors = list(_tensors(args)) + list(_tensors(kwargs.values()))
        _refuse_to_mix(name, tensors)
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        found = func(*map(_inner, args), **{key: _inner(x) for key, x in kwargs.items()})
        _count(name, func, tensors, kwargs, found)
        if _changes_a_shape(func):
            with no_dispatch():
                return func(*args, **kwargs)
        return _wrapped(found, {id(x.inner): x for x in tensors if isinstance(x, PretendTensor)})


class PretendDevice(TorchFunctionMode):
    """A context in which there is one device, ``cuda:0``, whose work is counted."""

    def __init__(self):
        super().__init__()
        self.counts = Counts()

    def __enter__(self):
        global _counts
        _counts = self.counts
        with ExitStack() as stack:
            patches = {
                "is_available": lambda: True,
                "device_count": lambda: 1,
                "current_device": lambda: 0,
                "get_rng_state": lambda *_: torch.zeros(1, dtype=torch.uint8),
                "set_rng_state": lambda *_: None,
                "mem_get_info": lambda *_: (1 << 37, 1 << 37),
            }
            for name, function in patches.items():
                stack.enter_context(mock.patch.object(torch.cuda, name, function))
            # Tensors made in inference mode cannot wrap views of others.
            stack.enter_context(mock.patch.object(torch, "inference_mode", _no_gradients))
            # A module that is moved gets new parameters: the old ones cannot hold such tensors.
            swap = torch.__future__.set_overwrite_module_params_on_conversion
            stack.callback(swap, torch.__future__.get_overwrite_module_params_on_conversion())
            swap(True)
            self._patches = stack.pop_all()
        return super().__enter__()

    def __exit__(self, *error):
        self._patches.close()
        return super().__exit__(*error)

    def put(self, values):
        """Return values as a tensor of the device."""
        if not isinstance(values, torch.Tensor):
            values = torch.as_tensor(np.asarray(values))
        return values.to(CUDA)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return _to(args[0], CUDA)
        if func is torch.Tensor.to:
            return _to(*args, **kwargs)
        if func is torch.Tensor.new_tensor and isinstance(args[0], PretendTensor):
            return _to_device(torch.tensor(*args[1:], **{"dtype": args[0].dtype} | kwargs))
        device = kwargs.get("device")
        if device is None or isinstance(device, int) or torch.device(device).type != "cuda":
            return func(*args, **kwargs)
        if func is torch.as_tensor and isinstance(args[0], PretendTensor):
            return args[0].to(kwargs.get("dtype") or args[0].dtype)
        made = func(*args, **kwargs | {"device": "cpu"})
        if func in (torch.tensor, torch.as_tensor):
            return _to_device(made)
        if func is not torch.empty:
            _counts.launches += 1
            _counts.written += _size(made)
        return PretendTensor(made)


def _no_gradients(mode=True):
    return torch.no_grad() if mode else nullcontext()


def _inner(x):
    """Replace tensors of the device by their values, in lists, too."""
    if isinstance(x, PretendTensor):
        return x.inner
    return [_inner(y) for y in x] if isinstance(x, (list, tuple)) else x


def _wrapped(x, known):
    """Undo `_inner`; what an operation changed in place is the same tensor as before."""
    if isinstance(x, torch.Tensor):
        return known[id(x)] if id(x) in known else PretendTensor(x)
    return type(x)(_wrapped(y, known) for y in x) if isinstance(x, (list, tuple)) else x


def _tensors(values):
    for x in values:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _size(x):
    """Bytes that a tensor covers; what is repeated without a copy counts once."""
    lengths = (n for n, stride in zip(x.shape, x.stride(), strict=True) if stride)
    return math.prod(lengths) * x.element_size() if x.numel() else 0


def _to_device(x):
    _counts.copies += 1
    _counts.written += _size(x)
    return PretendTensor(x.detach().clone())


def _to_host(x):
    _counts.waits += 1
    _counts.read += _size(x)
    return x.inner.detach().clone()


def _to(x, *args, **kwargs):
    copy = kwargs.pop("copy", False)
    if args and isinstance(args[0], torch.Tensor):
        device, dtype = args[0].device, args[0].dtype
    else:
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    if device is not None and device.type != x.device.type:
        moved = _to_host(x) if isinstance(x, PretendTensor) else _to_device(x)
    else:
        moved = x.clone() if copy else x
    return moved if dtype in (None, moved.dtype) else moved.type(dtype)


def _copy_into(target, source, non_blocking=False):
    """Copies from one device to the other are allowed in place."""
    if not isinstance(source, PretendTensor):
        _counts.copies += 1
    elif not isinstance(target, PretendTensor):
        _counts.waits += 1
    else:
        _counts.launches += 1
    _counts.read += _size(_inner(source))
    _counts.written += _size(_inner(target))
    _inner(target).copy_(_inner(source))
    return target


def _counted_indices(indices):
    """Indices may lie on the CPU: they are copied.  A mask is first counted."""
    found = []
    for index in indices:
        if isinstance(index, torch.Tensor):
            if not isinstance(index, PretendTensor):
                index = _to_device(index)
            _counts.waits += index.dtype in (torch.bool, torch.uint8)
        found.append(index)
    return found


def _logsumexp(x, dim, keepdim=False):
    top = x.amax(dim, keepdim=True)
    top = torch.where(top.abs() == torch.inf, 0.0, top)
    found = (x - top).exp_().sum(dim, keepdim=True).log_().add_(top)
    return found if keepdim else found.squeeze(dim)


def _refuse_to_mix(name, tensors):
    on_cpu = [x for x in tensors if not isinstance(x, PretendTensor)]
    if any(x.ndim or name in _STRICT for x in on_cpu):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"cuda:0 and cpu! (in {name})"
        )


def _count(name, func, tensors, options, found):
    _counts.waits += name in _SCALARS or name in _OF_UNKNOWN_SHAPE
    if name is aten.repeat_interleave:
        _counts.waits += options.get("output_size") is None
    if _costs_nothing(func):
        return
    _counts.launches += _MORE_LAUNCHES.get(name, 1)
    _counts.read += sum(_size(_inner(x)) for x in tensors)
    _counts.written += sum(map(_size, _tensors([found])))


@cache
def _costs_nothing(func):
    """Whether an operation only makes a view, or room for values."""
    return func.is_view or func.overloadpacket in _FREE


@cache
def _changes_a_shape(func):
    return torch.Tag.inplace_view in func.tags  # such as squeeze_
