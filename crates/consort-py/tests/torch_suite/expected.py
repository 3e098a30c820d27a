"""Tests of PyTorch's suite that pass with Gloo and fail with consort, each with the reason.

An entry that does not fail is stale and has to go: `test_torch_suite.py` says so.
"""

LOOKS_FOR_GLOO = {
    "DistributedTest.test_monitored_barrier_failure_order": (
        "wants the words of a rank that talks to rank 0 only; ours is told who has not come"
    ),
    "DistributedTest.test_monitored_barrier_gloo": (
        "wants the words of a rank that talks to rank 0 only; ours is told who has not come"
    ),
}
"""Tests that look for Gloo's name or for the words of its errors."""

GAPS = {
    "DistributedTest.test_ddp_profiling_torch_profiler": (
        "wants an event that ends on another thread; ours ends where the call was done, inline"
    ),
}
"""Tests that look for something consort does not do."""

EXPECTED = LOOKS_FOR_GLOO | GAPS
"""All of them, by name, with the reason. They fail in a world of four ranks."""
