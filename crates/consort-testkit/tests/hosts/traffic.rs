//! What hosts send each other.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use consort_testkit::Host;

/// Whether a byte gets from one host to another over a connection.
pub(crate) fn speaks(from: &Host, to: &Host, address: IpAddr) -> bool {
    let listener = to.run(|| TcpListener::bind(SocketAddr::new(address, 0))).expect("to bind");
    let target = listener.local_addr().expect("an address");
    let stream = from.run(|| TcpStream::connect_timeout(&target, Duration::from_secs(5)));
    stream.is_ok_and(|mut stream| stream.write_all(&[1]).is_ok()) && read_byte(&listener) == 1
}

/// A connection from one host to another, or the reason why there is none after `limit`.
pub(crate) fn connect(from: &Host, target: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    from.run(|| TcpStream::connect_timeout(&target, limit))
}

/// Sends so many bytes over a connection to an address of another host.
pub(crate) fn send(from: &Host, to: &Host, address: IpAddr, bytes: usize) {
    let listener = to.run(|| TcpListener::bind(SocketAddr::new(address, 0))).unwrap();
    let mut stream = connect(from, listener.local_addr().unwrap(), PATIENCE).unwrap();
    let sender = thread::spawn(move || stream.write_all(&vec![7; bytes]).unwrap());
    let mut received = Vec::new();
    listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert_eq!(received, vec![7; bytes]);
}

/// How long a byte takes there and back, at best.
pub(crate) fn round_trip(from: &Host, to: &Host) -> Duration {
    let listener = to.run(|| TcpListener::bind((to.address(), 0))).unwrap();
    let mut here = connect(from, listener.local_addr().unwrap(), PATIENCE).unwrap();
    let (mut there, _) = listener.accept().unwrap();
    for stream in [&here, &there] {
        stream.set_nodelay(true).unwrap();
    }
    let echo = thread::spawn(move || io::copy(&mut there.try_clone().unwrap(), &mut there));
    let trips = (0..5).map(|_| {
        let started = Instant::now();
        here.write_all(&[1]).unwrap();
        here.read_exact(&mut [0]).unwrap();
        started.elapsed()
    });
    let best = trips.min().unwrap();
    drop(here);
    echo.join().unwrap().unwrap();
    best
}

/// How many of so many datagrams get from one host to another.
pub(crate) fn arriving(from: &Host, to: &Host, sent: usize) -> usize {
    let receiver = to.run(|| UdpSocket::bind((to.address(), 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let target = receiver.local_addr().unwrap();
    let sender = from.run(|| UdpSocket::bind((from.address(), 0))).unwrap();
    let counter =
        thread::spawn(move || (0..sent).take_while(|_| receiver.recv(&mut [0; 8]).is_ok()).count());
    for _ in 0..sent {
        sender.send_to(b"hello", target).unwrap();
        // Slow enough that no queue overflows: what is lost is lost on the way.
        thread::sleep(Duration::from_micros(200));
    }
    counter.join().unwrap()
}

/// Whether one of a few datagrams gets from one host to another.
pub(crate) fn arrives(from: &Host, to: &Host) -> bool {
    let receiver = to.run(|| UdpSocket::bind((to.address(), 0))).expect("to bind");
    receiver.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let sender = from.run(|| UdpSocket::bind((from.address(), 0))).expect("to bind");
    let target = receiver.local_addr().expect("an address");
    (0..5).any(|_| {
        // While the cable is cut, sending itself may fail.
        let _ = sender.send_to(b"hello", target);
        receiver.recv(&mut [0; 8]).is_ok()
    })
}

pub(crate) fn read_byte(listener: &TcpListener) -> u32 {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("a byte");
    u32::from(byte[0])
}

/// How long a connection that can be made may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
