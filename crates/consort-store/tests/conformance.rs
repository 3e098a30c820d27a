//! Every store keeps the same promises: the testkit's suite, once for each.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};

use consort_store::{
    DEFAULT_PATIENCE, Deadline, FileStore, Limits, MemStore, PrefixStore, Secret, Server, Store,
    TcpStore,
};
use consort_testkit::store::{Subject, Verdict, queues};
use consort_testkit::{Context, store_across_processes, store_conformance};

store_conformance!(mem_store, || Arc::new(MemStore::new()));

store_conformance!(
    prefix_store,
    || {
        let whole = MemStore::new();
        for stranger in ["part", "partner/a", "b", "part/b"] {
            whole.set(stranger, b"of somebody else").expect("an empty store has room");
        }
        Arc::new(PrefixStore::new("a \"part\"\n", PrefixStore::new("part", whole)))
    },
    longest_key = Limits::STANDARD.key - "part/a \"part\"\n/".len()
);

store_conformance!(file_store, files());

store_across_processes!(
    file_store_across_processes,
    |dir: &Path| (dir.join("store").display().to_string(), ()),
    |_: &Context, path: &str| Arc::new(FileStore::open(path).expect("the file can be shared"))
);

store_conformance!(tcp_store, servers());

#[test]
fn tcp_store_serves_waiting_pops_in_the_order_they_came() -> Verdict {
    queues::waiting_pops_are_served_in_the_order_they_came(&Subject::new(servers()))
}

store_across_processes!(
    tcp_store_across_processes,
    |dir: &Path| {
        let (server, secret) = server();
        secret.write_new(dir.join("secret")).expect("a new file");
        (server.address().to_string(), server)
    },
    |ctx: &Context, address: &str| {
        let secret = Secret::from_file(ctx.dir().join("secret")).expect("the job's secret");
        connect(address, &secret)
    }
);

/// A maker of stores in new files of one directory.
fn files() -> impl Fn() -> Arc<dyn Store> {
    let dir = tempfile::tempdir().expect("a directory");
    let made = Mutex::new(0);
    move || {
        let mut made = made.lock().expect("no panic in here");
        *made += 1;
        let path = dir.path().join(format!("store-{made}"));
        Arc::new(FileStore::open(path).expect("a new file"))
    }
}

/// A maker of stores on new servers, which live as long as the maker.
fn servers() -> impl Fn() -> Arc<dyn Store> {
    let servers = Mutex::new(Vec::new());
    move || {
        let (server, secret) = server();
        let store = connect(server.address(), &secret);
        servers.lock().expect("no panic in here").push(server);
        store
    }
}

fn server() -> (Server, Secret) {
    let secret = Secret::generate().expect("random bytes");
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(loopback, &secret).expect("a free port of the loopback");
    (server, secret)
}

fn connect(address: impl ToString, secret: &Secret) -> Arc<dyn Store> {
    let until = Deadline::after(DEFAULT_PATIENCE);
    Arc::new(TcpStore::connect(address, secret, until).expect("the server is there"))
}
