"""Tests of PyTorch's suite that pass with Gloo and fail with consort, each with the reason.

An entry that does not fail is stale and has to go: `test_torch_suite.py` says so.
"""

EXPECTED = {
    "DistributedTest.test_ddp_profiling_torch_profiler": (
        "wants an event that ends on another thread; ours lasts as long as the caller is in the call"
    ),
}
"""By name, with the reason."""
