//! Several processes on one store, and what is left when one of them is killed.
//!
//! Each function takes two closures: `host` runs in the first process, gets a directory for
//! files, and returns the store's address with whatever keeps it there; `connect` runs in every
//! rank. [`store_across_processes!`](crate::store_across_processes) makes a test of each.

mod killed;
mod together;

pub use killed::{a_killed_process_leaves_whole_data, a_killed_process_takes_no_element_along};
pub use together::many_processes_lose_nothing;

/// Makes a module with one test for every promise that needs several processes.
///
/// ```no_run
/// # use std::{path::Path, sync::Arc};
/// # use consort_store::{MemStore, Store};
/// # use consort_testkit::Context;
/// # struct Server;
/// # impl Server { fn start() -> Self { Self } fn address(&self) -> String { String::new() } }
/// # fn connect_to(_: &str) -> Arc<dyn Store> { Arc::new(MemStore::new()) }
/// consort_testkit::store_across_processes!(
///     my_store,
///     |_dir: &Path| {
///         let server = Server::start();
///         (server.address(), server)
///     },
///     |_ctx: &Context, address: &str| connect_to(address)
/// );
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! store_across_processes {
    ($module:ident, $host:expr, $connect:expr $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "the closures may need nothing from around them")]
            use super::*;

            $crate::store_across_processes! { @tests $host, $connect;
                many_processes_lose_nothing,
                a_killed_process_leaves_whole_data,
                a_killed_process_takes_no_element_along,
            }
        }
    };
    (@tests $host:expr, $connect:expr; $case:ident, $($more:ident,)*) => {
        #[test]
        fn $case() {
            $crate::store::processes::$case($host, |ctx, address| ($connect)(ctx, address));
        }
        $crate::store_across_processes! { @tests $host, $connect; $($more,)* }
    };
    (@tests $host:expr, $connect:expr;) => {};
}
