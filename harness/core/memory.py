"""Keeps freed memory in the process. A step allocates the same few megabyte tensors again and again; glibc gives
each back to the kernel, which zeroes it page by page when it returns. Worth a quarter of a step on a small model.
"""

import ctypes
import functools

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h
_LARGEST_KEPT = 1 << 25  # bytes; glibc refuses more


@functools.cache
def keep_freed_memory() -> bool:
    """Once per process; False where the C library has no mallopt."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, _LARGEST_KEPT), (_M_TRIM_THRESHOLD, 1 << 30), (_M_TOP_PAD, 1 << 26))
    return all(bool(mallopt(parameter, value)) for parameter, value in settings)
