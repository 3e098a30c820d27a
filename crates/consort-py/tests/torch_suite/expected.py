"""Tests of PyTorch's suite that pass with Gloo and fail with consort, each with the reason.

An entry that passes is stale and has to go: `test_torch_suite.py` says so.
"""
