//! Hosts and networks of all sorts.

use std::time::Duration;

use consort::Group;
use consort_testkit::{Context, Family, Network, Ranks, skip};

use crate::exercise::exercise;
use crate::meet::{LIMIT, called};

/// Ranks on a network that do everything, with up to so many numbers each.
macro_rules! everything_works {
    ($($name:ident: $ranks:literal on $network:expr, up to $most:expr;)*) => {$(
        #[test]
        fn $name() {
            let ranks = match Ranks::new($ranks).in_blocks().limit(LIMIT).on_hosts($network) {
                Ok(ranks) => ranks,
                Err(reason) => return skip(reason),
            };
            ranks.start(|ctx| exercise(&meet(ctx), $most)).expect_all();
        }
    )*};
}

everything_works! {
    two_hosts_with_two_ranks_each: 4 on Network::of(2), up to MANY;
    three_hosts: 3 on Network::of(3), up to MANY;
    hosts_with_ipv4_only: 2 on Network::of(2).family(Family::V4), up to 20_000;
    hosts_with_ipv6_only: 4 on Network::of(2).family(Family::V6), up to MANY;
    hosts_with_an_interface_that_leads_nowhere: 4 on Network::of(2).stray_interface(), up to 20_000;
    a_network_with_the_smallest_packets: 4 on Network::of(2).mtu(1280), up to 20_000;
    a_network_that_is_far_away_and_loses_packets:
        2 on Network::of(2).delay(Duration::from_millis(20)).loss(1.0), up to 20_000;
    firewalls_that_let_one_port_through: 6 on Network::of(3).firewall([PORT]), up to 20_000;
}

fn meet(ctx: &Context) -> Group {
    called(ctx, PORT).init().unwrap()
}

/// Some MiB for each rank.
const MANY: usize = 300_000;
const PORT: u16 = 29_400;
