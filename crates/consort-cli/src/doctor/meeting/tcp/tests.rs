use std::net::TcpListener;

use consort_store::Server;

use super::*;
use crate::doctor::finding::{Finding, Verdict};

fn judged(visit: TcpVisit) -> Vec<Finding> {
    check("host0:5", &visit)
}

fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5))
}

fn welcomed(welcome: Welcome) -> Vec<Finding> {
    let took = Duration::from_micros(80);
    let findings = judged(TcpVisit::Reached { peer: peer(), took, welcome });
    assert_eq!(findings[0].what, "host0:5 (10.0.0.1) takes connections, in 80 µs");
    findings[1..].to_vec()
}

fn figures(round_trip: Duration, speed: f64) -> Figures {
    Figures { round_trip, rounds: 9, there: speed, back: 2.0 * speed }
}

#[test]
fn a_name_without_an_address_is_bad() {
    let findings = judged(TcpVisit::Unresolved { reason: "unknown".into() });
    assert_eq!(findings[0].verdict, Verdict::Bad);
    assert_eq!(findings[0].what, "host0:5 cannot be found: unknown");
}

#[test]
fn every_silence_is_bad_and_says_what_to_do() {
    let todo = |silence| {
        let finding = judged(TcpVisit::Unreached { first: peer(), silence }).remove(0);
        assert_eq!(finding.verdict, Verdict::Bad);
        finding.todo.unwrap()
    };
    assert!(todo(Silence::Refused).contains("consort run --rdzv tcp://host0:5"));
    assert!(todo(Silence::NoAnswer).contains("firewall"));
    assert!(todo(Silence::Other("no route".into())).contains("route"));
}

#[test]
fn without_a_secret_only_the_connection_is_good() {
    let findings = welcomed(Welcome::NoSecret);
    assert_eq!(findings[0].verdict, Verdict::Warning);
    assert!(findings[0].todo.as_ref().unwrap().contains("--secret-file"));
    assert_eq!(welcomed(Welcome::UnreadableSecret), []);
}

#[test]
fn being_turned_away_is_bad_with_the_reason() {
    let cases = [
        (HandshakeError::Secret, "copy the secret file"),
        (HandshakeError::Version { ours: 1, theirs: 2 }, "same version"),
        (HandshakeError::NotConsort, "another program"),
        (HandshakeError::Full, "log"),
    ];
    for (reason, todo) in cases {
        let finding = welcomed(Welcome::TurnedAway(reason)).remove(0);
        assert_eq!(finding.verdict, Verdict::Bad);
        assert!(finding.todo.unwrap().contains(todo), "{todo}");
    }
    assert_eq!(welcomed(Welcome::Broken("lost".into()))[0].verdict, Verdict::Bad);
}

#[test]
fn a_far_or_slow_store_is_a_warning() {
    let verdicts = |round_trip, speed| {
        let findings = welcomed(Welcome::In(figures(round_trip, speed)));
        (findings[0].verdict, findings[1].verdict)
    };
    let (near, far) = (Duration::from_micros(100), Duration::from_millis(40));
    assert_eq!(verdicts(near, 1e9), (Verdict::Good, Verdict::Good));
    assert_eq!(verdicts(far, 1e6), (Verdict::Warning, Verdict::Warning));
    let shown = welcomed(Welcome::In(figures(near, 104_857_600.0)));
    assert_eq!(shown[0].what, "the secret is right; round trip 100 µs (median of 9)");
    assert_eq!(shown[1].what, "100 MiB/s there, 200 MiB/s back, encrypted");
}

#[test]
fn a_server_with_the_same_secret_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let secret = Secret::generate().unwrap();
    secret.write_new(&file).unwrap();
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), &secret).unwrap();

    let visit = TcpVisit::pay(&server.address().to_string(), Some(&file));
    let TcpVisit::Reached { welcome: Welcome::In(figures), .. } = visit else {
        panic!("{visit:?}");
    };
    assert!(figures.rounds > 0 && figures.there > 0.0, "{figures:?}");
}

#[test]
fn a_server_with_another_secret_turns_us_away() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    Secret::generate().unwrap().write_new(&file).unwrap();
    let other = Secret::generate().unwrap();
    let server = Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), &other).unwrap();

    let visit = TcpVisit::pay(&server.address().to_string(), Some(&file));
    let turned_away = |visit: &TcpVisit| {
        matches!(
            visit,
            TcpVisit::Reached { welcome: Welcome::TurnedAway(HandshakeError::Secret), .. }
        )
    };
    assert!(turned_away(&visit), "{visit:?}");
}

#[test]
fn a_program_that_is_not_consort_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    Secret::generate().unwrap().write_new(&file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let talker = thread::spawn(move || {
        let connections = listener.incoming().take(2).flatten();
        connections.for_each(|mut connection| {
            let text =
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            // The visitor may have hung up already.
            let _ = io::Write::write_all(&mut connection, text);
        });
    });
    let visit = TcpVisit::pay(&address, Some(&file));
    talker.join().unwrap();
    let turned_away = |visit: &TcpVisit| {
        matches!(
            visit,
            TcpVisit::Reached { welcome: Welcome::TurnedAway(HandshakeError::NotConsort), .. }
        )
    };
    assert!(turned_away(&visit), "{visit:?}");
}

#[test]
fn a_port_that_nobody_has_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let visit = TcpVisit::pay(&address.to_string(), None);
    assert!(matches!(visit, TcpVisit::Unreached { silence: Silence::Refused, .. }), "{visit:?}");
    assert_eq!(visit.peer(), Some(address));
}

#[test]
fn a_name_that_cannot_be_a_name_is_unresolved() {
    let visit = TcpVisit::pay("not a name:1", None);
    assert!(matches!(visit, TcpVisit::Unresolved { .. }), "{visit:?}");
    assert_eq!(visit.peer(), None);
}
