//! How data travels, said in the program.

use super::Builder;
use crate::options::{Engine, Transport};

/// # How data travels
///
/// All ranks have to say the same, except for the port.
impl Builder {
    /// Who carries out calls; [`Auto`](Engine::Auto) if it is not said.
    ///
    /// ```
    /// use consort::{Builder, Engine};
    ///
    /// let group = Builder::new().rank(3).world(1000).engine(Engine::Fake).init()?;
    /// assert_eq!((group.backend_name()?, group.world()), ("fake", 1000));
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn engine(mut self, engine: Engine) -> Self {
        self.wishes.engine = Some(engine);
        self
    }

    /// What data travels over; [`Auto`](Transport::Auto) if it is not said.
    ///
    /// ```
    /// use consort::{Builder, Transport};
    ///
    /// let group = Builder::new().rank(0).world(1).transport(Transport::Shm).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.wishes.transport = Some(transport);
        self
    }

    /// Whether data is encrypted between hosts; not if it is not said. What ranks say to the store
    /// over TCP always is.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).encrypt(true).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn encrypt(mut self, encrypt: bool) -> Self {
        self.wishes.encrypt = Some(encrypt);
        self
    }

    /// Whether data has a checksum of consort's own between hosts, stronger than that of TCP; not if
    /// it is not said.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).integrity(true).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn integrity(mut self, integrity: bool) -> Self {
        self.wishes.integrity = Some(integrity);
        self
    }

    /// Every how many calls of a group its ranks compare their results, to find one that computes or
    /// stores wrongly; 0 is never, as if it is not said.
    ///
    /// What is compared is the result of every call that gives all ranks the same: `all_reduce`,
    /// `all_gather` and `broadcast`, by a checksum of its bytes, which has to be read once more for
    /// that. If ranks differ, the group ends for all of them with
    /// [`Error::Diverged`](crate::Error::Diverged). A comparison is a call by itself, which other
    /// errors count among the group's.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).verify_results(1000).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn verify_results(mut self, every: u32) -> Self {
        self.wishes.verify_every = Some(every);
        self
    }

    /// The algorithm of every collective between hosts that it can carry out, by its name in
    /// `consort plan`; with `auto`, as if it is not said, one is chosen for each call. No such name
    /// is an error of [`init`](Self::init). Averages, sums with a factor, and sums of 8 and 16 bit
    /// floats are combined all at once, whatever is named.
    ///
    /// ```
    /// use consort::Builder;
    ///
    /// let group = Builder::new().rank(0).world(1).algorithm("ring").init()?;
    /// let error = Builder::new().rank(0).world(1).algorithm("rings").init().unwrap_err();
    /// assert!(error.to_string().contains("choose auto, flat, ring"));
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn algorithm(mut self, name: impl Into<String>) -> Self {
        self.wishes.algorithm = Some(name.into());
        self
    }

    /// How many TCP connections two ranks have between them, from 1 to 8; with 0, as if it is not
    /// said, the number is found by measuring. More are an error of [`init`](Self::init). If both
    /// connect to each other in the same moment, there is one more.
    ///
    /// ```
    /// use consort::Builder;
    ///
    /// let group = Builder::new().rank(0).world(1).streams(4).init()?;
    /// assert!(Builder::new().rank(0).world(1).streams(9).init().is_err());
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn streams(mut self, count: u8) -> Self {
        self.wishes.streams = Some(count);
        self
    }

    /// The port that this host listens on for data, for a firewall that lets one through; with 0 the
    /// system chooses. If it is not said, it is the number of the store's port, except on the store's
    /// own host, where the system chooses. It may differ from host to host. One that cannot be had is
    /// an error of [`init`](Self::init).
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).data_port(29_600).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn data_port(mut self, port: u16) -> Self {
        self.wishes.port = Some(port);
        self
    }
}
