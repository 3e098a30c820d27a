//! How the ranks of a test meet, for every kind of group.

use consort::{Builder, Engine, Transport};
use consort_testkit::{Context, Kind};

/// A builder that knows this rank, where it meets the others, and over what data is to travel.
pub(crate) fn invited(ctx: &Context) -> Builder {
    invited_to(ctx, ctx.world())
}

/// The same for the first so many ranks.
pub(crate) fn invited_to(ctx: &Context, world: u32) -> Builder {
    let asking = format!("?rank={}&world={world}", ctx.rank());
    if let Some(host) = ctx.address_of(0) {
        // Nobody else is on this host who could have the port.
        let address = format!("tcp://{}{asking}", host.at(29_500));
        let secret = "5ec2e7".repeat(16)[..64].parse().unwrap();
        return Builder::new().address(&address).unwrap().secret(secret);
    }
    let path = ctx.dir().join("meeting");
    let builder = Builder::new().address(&format!("file://{}{asking}", path.display())).unwrap();
    match ctx.kind() {
        Kind::Tcp => builder.transport(Transport::Tcp),
        Kind::Mpi => builder.engine(Engine::Mpi),
        _ => builder,
    }
}
