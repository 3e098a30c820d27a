use super::*;

fn take(variable: &str, value: &str) -> Result<Options, String> {
    let mut wishes = Wishes::default();
    wishes.take(variable, value).map(|()| wishes.settle())
}

#[test]
fn a_transport_is_read_as_it_is_written() {
    for transport in [Transport::Auto, Transport::Shm, Transport::Tcp] {
        assert_eq!(transport.to_string().parse(), Ok(transport));
    }
    assert!("TCP".parse::<Transport>().is_err());
}

#[test]
fn an_engine_is_read_as_it_is_written() {
    for engine in Engine::ALL {
        assert_eq!(engine.to_string().parse(), Ok(engine));
    }
    assert!("MPI".parse::<Engine>().is_err());
}

#[test]
fn every_variable_sets_its_option_and_no_other() {
    let usual = Options::default();
    for (variable, value, expected) in [
        ("CONSORT_BACKEND", "mpi", Options { engine: Engine::Mpi, ..usual.clone() }),
        ("CONSORT_TRANSPORT", "shm", Options { transport: Transport::Shm, ..usual.clone() }),
        ("CONSORT_ENCRYPT", "on", Options { encrypt: true, ..usual.clone() }),
        ("CONSORT_INTEGRITY", "1", Options { integrity: true, ..usual.clone() }),
        ("CONSORT_VERIFY", "100", Options { verify_every: NonZeroU32::new(100), ..usual.clone() }),
        ("CONSORT_ALGORITHM", "ring", Options { algorithm: Some("ring".into()), ..usual.clone() }),
        ("CONSORT_STREAMS", "8", Options { streams: NonZeroU8::new(8), ..usual.clone() }),
        ("CONSORT_PORT", "29600", Options { port: Some(29_600), ..usual.clone() }),
    ] {
        assert_eq!(take(variable, value), Ok(expected), "{variable}");
        assert!(OPTIONS.contains(&variable), "{variable}");
    }
}

#[test]
fn the_default_can_be_asked_for() {
    for (variable, value) in [
        ("CONSORT_BACKEND", "auto"),
        ("CONSORT_TRANSPORT", "auto"),
        ("CONSORT_ENCRYPT", "off"),
        ("CONSORT_INTEGRITY", "false"),
        ("CONSORT_VERIFY", "0"),
        ("CONSORT_ALGORITHM", "auto"),
        ("CONSORT_STREAMS", "0"),
    ] {
        assert_eq!(take(variable, value), Ok(Options::default()), "{variable}");
    }
    let any = Options { port: Some(0), ..Options::default() };
    assert_eq!(take("CONSORT_PORT", "0"), Ok(any), "not the store's");
}

#[test]
fn what_is_not_a_value_is_refused_with_those_that_are() {
    for (variable, value, words) in [
        ("CONSORT_BACKEND", "gloo", "choose auto, host, mpi, nccl or fake"),
        ("CONSORT_TRANSPORT", "udp", "choose auto, shm or tcp"),
        ("CONSORT_ENCRYPT", "maybe", "on or off"),
        ("CONSORT_INTEGRITY", "2", "on or off"),
        ("CONSORT_VERIFY", "-1", "0 for never"),
        ("CONSORT_VERIFY", "4294967296", "1 to 4294967295"),
        ("CONSORT_ALGORITHM", "rings", "choose auto, flat, ring, pairwise"),
        ("CONSORT_STREAMS", "9", "1 to 8"),
        ("CONSORT_STREAMS", "256", "1 to 8"),
        ("CONSORT_STREAMS", "many", "1 to 8"),
        ("CONSORT_PORT", "65536", "1 to 65535"),
    ] {
        let error = take(variable, value).unwrap_err();
        assert!(error.contains(words), "{variable}={value}: {error}");
    }
}

#[test]
fn ranks_have_to_agree_on_everything_but_the_port() {
    let usual = Options::default().must_be_the_same();
    for (variable, value) in [
        ("CONSORT_TRANSPORT", "tcp"),
        ("CONSORT_ENCRYPT", "on"),
        ("CONSORT_INTEGRITY", "on"),
        ("CONSORT_VERIFY", "1"),
        ("CONSORT_ALGORITHM", "flat"),
        ("CONSORT_STREAMS", "1"),
    ] {
        let said = take(variable, value).unwrap().must_be_the_same();
        let differing = said.iter().zip(&usual).filter(|(said, usual)| said != usual);
        let differing: Vec<_> = differing.map(|(said, _)| said.0).collect();
        assert_eq!(differing, [variable["CONSORT_".len()..].to_lowercase()]);
    }
    assert_eq!(take("CONSORT_PORT", "1").unwrap().must_be_the_same(), usual);
}
