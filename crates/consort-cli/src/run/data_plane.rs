//! How the ranks' data travels: options that become variables of every rank.

use consort::{Engine, Transport, check_variable};

/// What can be typed about it. What is not typed is as the launcher's own environment says.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "How data travels")]
pub(crate) struct DataPlane {
    /// Who carries out the ranks' calls: auto or host (they themselves), mpi (an MPICH or one of its
    /// relatives, which this program serves as their mpiexec does), nccl (those on memory of devices, of
    /// which each has one) or fake (nobody, and results are not computed: to try a program as one of many
    /// ranks, see Group::fake). Their CONSORT_BACKEND.
    #[arg(long, value_name = "auto|host|mpi|nccl|fake")]
    backend: Option<Engine>,

    /// What data travels over: auto (shared memory on a host, TCP between hosts), shm (refuses several
    /// hosts) or tcp (also on one host). Their CONSORT_TRANSPORT.
    #[arg(long, value_name = "auto|shm|tcp")]
    transport: Option<Transport>,

    /// Encrypt data between hosts; what ranks say to the store over TCP always is (CONSORT_ENCRYPT=on).
    #[arg(long)]
    encrypt: bool,

    /// Send a checksum with data between hosts (CONSORT_INTEGRITY=on).
    #[arg(long)]
    integrity: bool,

    /// Compare the ranks' results every N calls, to find one that computes wrongly; 0 is never
    /// (CONSORT_VERIFY).
    #[arg(long, value_name = "N", value_parser = value_of("CONSORT_VERIFY"))]
    verify: Option<String>,

    /// Use one algorithm between hosts, by its name in `consort plan`, instead of choosing for each call
    /// (CONSORT_ALGORITHM).
    #[arg(long, value_name = "NAME", value_parser = value_of("CONSORT_ALGORITHM"))]
    algorithm: Option<String>,

    /// TCP connections between two ranks, from 1 to 8; 0 finds the number by measuring
    /// (CONSORT_STREAMS).
    #[arg(long, value_name = "N", value_parser = value_of("CONSORT_STREAMS"))]
    streams: Option<String>,

    /// The port that this host listens on for data; 0 lets the system choose (CONSORT_PORT).
    #[arg(long, value_name = "PORT", value_parser = value_of("CONSORT_PORT"))]
    data_port: Option<String>,
}

impl DataPlane {
    /// The variables that say it to a rank.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let switch = |given: bool| given.then(|| "on".to_owned());
        let all = [
            (BACKEND, self.backend.map(|engine| engine.to_string())),
            ("CONSORT_TRANSPORT", self.transport.map(|transport| transport.to_string())),
            ("CONSORT_ENCRYPT", switch(self.encrypt)),
            ("CONSORT_INTEGRITY", switch(self.integrity)),
            ("CONSORT_VERIFY", self.verify.clone()),
            ("CONSORT_ALGORITHM", self.algorithm.clone()),
            ("CONSORT_STREAMS", self.streams.clone()),
            ("CONSORT_PORT", self.data_port.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// Who is to carry out calls, given what their variable for that is without an option.
    pub(crate) fn engine(&self, inherited: Option<&str>) -> Engine {
        let inherited = || inherited.and_then(|name| name.parse().ok());
        self.backend.or_else(inherited).unwrap_or_default()
    }

    /// Whether a rank's variable of this name is one of them.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.variables().any(|(own, _)| own == name)
    }
}

/// Takes what ranks take as the value of a variable.
fn value_of(
    variable: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |value| check_variable(variable, value).map(|()| value.to_owned())
}

/// The variable that says who carries out calls.
pub(crate) const BACKEND: &str = "CONSORT_BACKEND";
/// What it means that it is `fake`.
pub(crate) const FAKE: &str = "nobody carries out calls, and results are not computed";
