//! `consort run` on several hosts.

mod data;
mod failures;
mod losses;
mod meeting;
mod refusals;
mod standby;

/// A rank that says `up RANK/WORLD round EPOCH` and works until the file `done` is there.
const UNTIL_DONE: &str = "echo up $RANK/$WORLD_SIZE round $CONSORT_EPOCH; \
                          until [ -e $SHARED/done ]; do sleep 0.05; done";
