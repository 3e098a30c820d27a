//! How the ranks of a test meet.

use std::time::Duration;

use consort::{Builder, Transport};
use consort_testkit::Context;

/// A builder for this rank, which meets the others in a file that all hosts see.
pub(crate) fn invited(ctx: &Context) -> Builder {
    let path = ctx.dir().join("meeting");
    let address = format!("file://{}?rank={}&world={}", path.display(), ctx.rank(), ctx.world());
    let builder = Builder::new().address(&address).unwrap();
    builder.interface("eth0").transport(Transport::Tcp).timeout(LONG)
}

/// A builder for this rank, which meets the others where rank 0 is.
pub(crate) fn called(ctx: &Context, port: u16) -> Builder {
    let meeting = ctx.address_of(0).unwrap().at(port);
    let address = format!("tcp://{meeting}?rank={}&world={}", ctx.rank(), ctx.world());
    let secret = "5a".repeat(32).parse().unwrap();
    let builder = Builder::new().address(&address).unwrap().secret(secret);
    builder.transport(Transport::Tcp).timeout(LONG)
}

/// Nobody waits that long for what goes wrong.
pub(crate) const LONG: Duration = Duration::from_secs(80);
/// How long a test may take where others use the cores.
pub(crate) const LIMIT: Duration = Duration::from_secs(110);
