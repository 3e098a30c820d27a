//! What consort's tests are made with.
#![forbid(unsafe_code)]
