//! A small server: one answer for each connection, to a few at a time, none of whom can hold up
//! another or the launcher.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::request::{Asked, MOST, Refusal, answer, parse};

/// Answers everyone who comes with what `page` gives, in threads of its own, for as long as the process
/// runs.
///
/// # Errors
/// When there is no thread left.
pub(super) fn start(
    listener: TcpListener,
    page: impl Fn() -> Arc<str> + Send + Sync + 'static,
) -> io::Result<()> {
    let page = Arc::new(page);
    let accept = move || loop {
        match listener.accept() {
            Ok((stream, _)) => receive(stream, &page),
            // One who has gone again, or there are no files left: others come.
            Err(error) => {
                tracing::debug!(%error, "somebody who asked for metrics is lost");
                thread::sleep(PAUSE);
            }
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(accept)?;
    Ok(())
}

/// Has somebody served by a thread, unless there are enough.
fn receive<P: Fn() -> Arc<str> + Send + Sync + 'static>(stream: TcpStream, page: &Arc<P>) {
    // This one and everyone who is being served have one.
    if Arc::strong_count(page) > MOST_AT_ONCE {
        return turn_away(&stream);
    }
    let page = page.clone();
    let serve = move || {
        // Whoever does not take its answer goes without.
        let _ = serve(&stream, || page().to_string());
    };
    if let Err(error) = thread::Builder::new().name("metrics".to_owned()).spawn(serve) {
        tracing::debug!(%error, "somebody who asked for metrics is not served");
    }
}

/// Says that there are enough, without waiting for anything.
fn turn_away(mut stream: &TcpStream) {
    let told = stream.set_nonblocking(true);
    let _ = told.and_then(|()| stream.write(answer(Err(Refusal::Busy), String::new).as_bytes()));
}

fn serve(stream: &TcpStream, page: impl FnOnce() -> String) -> io::Result<()> {
    let asked = listen(stream, Instant::now() + PATIENCE)?;
    tell(stream, answer(asked, page).as_bytes(), Instant::now() + PATIENCE)?;
    // If it were closed with something unread, the answer would be lost on its way.
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + FAREWELL;
    let mut rest = [0; MOST];
    for _ in 0..MOST_REST {
        if read_before(stream, &mut rest, until)? == 0 {
            break;
        }
    }
    Ok(())
}

/// What somebody asks for.
fn listen(stream: &TcpStream, until: Instant) -> io::Result<Result<Asked, Refusal>> {
    let mut bytes = [0; MOST];
    let mut filled = 0;
    loop {
        match read_before(stream, &mut bytes[filled..], until) {
            Ok(0) => return Ok(Err(Refusal::Nonsense)),
            Ok(more) => filled += more,
            Err(error) if is_late(&error) => return Ok(Err(Refusal::TooSlow)),
            Err(error) => return Err(error),
        }
        if let Some(asked) = parse(&bytes[..filled]) {
            return Ok(asked);
        }
    }
}

fn tell(mut stream: &TcpStream, mut text: &[u8], until: Instant) -> io::Result<()> {
    while !text.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(text)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => text = &text[written..],
        }
    }
    Ok(())
}

fn read_before(mut stream: &TcpStream, bytes: &mut [u8], until: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(until)?))?;
    stream.read(bytes)
}

/// How much time is left.
fn left(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// So many are served at once.
const MOST_AT_ONCE: usize = 4;
/// How long somebody may take to ask, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long, and how much, it is listened to after that.
const FAREWELL: Duration = Duration::from_millis(200);
const MOST_REST: usize = 16;
/// After an accident.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // More than a connection has room for.
        let page: Arc<str> = "a 1\n".repeat(1 << 22).into();
        start(listener, move || page.clone()).unwrap();
        address
    }

    fn ask(address: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It may have been sent away in the meantime.
        let _ = stream.write_all(request);
        let mut told = Vec::new();
        let _ = stream.read_to_end(&mut told);
        String::from_utf8_lossy(&told).into_owned()
    }

    const ASK: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

    #[test]
    fn who_asks_is_answered_and_who_talks_nonsense_is_not() {
        let address = server();
        let told = ask(address, ASK);
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &told[..told.len().min(200)]);
        assert_eq!(told.lines().filter(|line| *line == "a 1").count(), 1 << 22);
        assert!(ask(address, b"\x16\x03\x01hello").starts_with("HTTP/1.1 400 "));
        assert!(ask(address, &[b'G'; 3 * MOST]).starts_with("HTTP/1.1 431 "));
        assert!(ask(address, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn who_says_nothing_or_does_not_listen_is_given_up() {
        let address = server();
        let silent = TcpStream::connect(address).unwrap();
        let mut deaf = TcpStream::connect(address).unwrap();
        deaf.write_all(ASK).unwrap();
        // There is room for others meanwhile.
        assert!(ask(address, ASK).starts_with("HTTP/1.1 200 "));
        let mut told = String::new();
        silent.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (&silent).read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
        thread::sleep(2 * PATIENCE);
        // Nobody serves it any more: what it gets is not all.
        let mut told = Vec::new();
        deaf.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = deaf.read_to_end(&mut told);
        assert!(told.len() < 4 << 22, "{}", told.len());
    }

    #[test]
    fn of_many_who_hold_it_up_the_last_are_sent_away_and_then_it_goes_on() {
        let address = server();
        let idle: Vec<TcpStream> =
            (0..4 * MOST_AT_ONCE).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut told = [0; 12];
        let last = idle.last().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut reader: &TcpStream = last;
        reader.read_exact(&mut told).unwrap();
        assert_eq!(&told, b"HTTP/1.1 503");
        drop(idle);
        let begun = Instant::now();
        while !ask(address, ASK).starts_with("HTTP/1.1 200 ") {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody is served any more");
            thread::sleep(PAUSE);
        }
    }
}
