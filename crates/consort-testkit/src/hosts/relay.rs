//! A switch in user space that delays and loses, for kernels that have no netem.
//!
//! Every host's port is bridged to a vxlan device, which wraps each frame in a UDP datagram; all
//! of them go to one socket, in a namespace of its own because the kernel takes a short cut
//! between devices of one. The relay learns who sits where, as switches do, and sends each frame
//! on to its port when its time has come.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::checksum;
use super::host::port;
use super::network::Network;
use super::space::{Label, NameSpace};
use crate::skip::Skip;

/// A running relay. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Option<Sender<()>>,
    worker: Option<JoinHandle<()>>,
    mtu: String,
    _space: NameSpace,
}

impl Relay {
    /// Starts one beside a switch.
    pub(super) fn start(network: &Network, label: Label, switch: &NameSpace) -> Result<Self, Skip> {
        let space = NameSpace::new(format!("{label}w"))?;
        let cable = ["type", "veth", "peer", "name", "relay", "netns", space.name()];
        switch.attempt("ip", &[&["link", "add", "trunk"], cable.as_slice()].concat())?;
        for (space, interface, address) in [(switch, "trunk", SWITCH), (&space, "relay", RELAY)] {
            space.ip(&["addr", "add", &format!("{address}/24"), "dev", interface]);
            space.ip(&["link", "set", interface, "mtu", "65000", "up"]);
        }
        let socket = space.enter(|| UdpSocket::bind((RELAY, RELAY_PORT)));
        let socket = socket.expect("the address is there and the port is free");
        socket.set_nonblocking(true).expect("a socket can be");
        // A burst waits here; only root may ask for so much, and only root makes hosts.
        let _ = set_socket_recv_buffer_size_force(&socket, BURST);
        let (stop, stopped) = channel();
        let ways = Ways::new(network);
        let worker = thread::spawn(move || carry(&socket, &stopped, ways));
        let mtu = network.mtu.unwrap_or(1500).to_string();
        Ok(Self { stop: Some(stop), worker: Some(worker), mtu, _space: space })
    }

    /// Connects a host's port to the relay.
    pub(super) fn connect(&self, switch: &NameSpace, host: usize) -> Result<(), Skip> {
        let (way, line, number) = (format!("way{host}"), format!("line{host}"), host.to_string());
        let (own, listen) = (SWITCH.to_string(), SWITCH_PORT.to_string());
        let place = ["type", "vxlan", "id", &number, "local", &own, "dstport", &listen];
        let device = ["link", "add", "name", &way, "mtu", &self.mtu];
        switch.attempt("ip", &[device.as_slice(), &place, &["nolearning"]].concat())?;
        let (relay, listens) = (RELAY.to_string(), RELAY_PORT.to_string());
        let all = ["fdb", "append", "00:00:00:00:00:00", "dev", &way];
        switch.attempt("bridge", &[all.as_slice(), &["dst", &relay, "port", &listens]].concat())?;
        switch.ip(&["link", "add", "name", &line, "type", "bridge"]);
        for interface in [&way, &port(host)] {
            switch.ip(&["link", "set", interface, "master", &line]);
        }
        for interface in [&way, &line] {
            switch.ip(&["link", "set", interface, "up"]);
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(worker) = self.worker.take() {
            // A panic of the relay has been printed, and the hosts have missed it.
            let _ = worker.join();
        }
    }
}

/// Takes frames and hands them on when they are due, until told to stop.
fn carry(socket: &UdpSocket, stopped: &Receiver<()>, mut ways: Ways) {
    let mut packet = vec![0; 1 << 16];
    while stopped.try_recv() == Err(TryRecvError::Empty) {
        let wait = ways.next_due().map_or(GLANCE, |due| due.min(GLANCE));
        let wait = Timespec::try_from(wait).expect("a moment");
        // Nothing came, or the switch is being taken down: both show in the next round.
        let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&wait));
        if let Ok(length) = socket.recv(&mut packet) {
            ways.take(&mut packet[..length]);
        }
        while let Some(packet) = ways.give() {
            let _ = socket.send_to(&packet, (SWITCH, SWITCH_PORT));
        }
    }
}

/// Who sits where, and what is on its way.
#[derive(Debug)]
struct Ways {
    hosts: u32,
    delay: Duration,
    loss: f64,
    dice: u64,
    seats: HashMap<[u8; 6], u32>,
    under_way: VecDeque<(Instant, Vec<u8>)>,
}

impl Ways {
    fn new(network: &Network) -> Self {
        Self {
            hosts: u32::try_from(network.hosts).expect("at most 250 hosts"),
            delay: network.delay,
            loss: network.loss,
            dice: 0x9e37_79b9_7f4a_7c15,
            seats: HashMap::new(),
            under_way: VecDeque::new(),
        }
    }

    /// Takes a packet, as vxlan sends it: eight bytes with the port's number, then the frame.
    fn take(&mut self, packet: &mut [u8]) {
        let Some((header, frame)) = packet.split_first_chunk_mut::<8>() else { return };
        let Some((addresses, _)) = frame.split_first_chunk::<12>() else { return };
        let [_, _, _, _, a, b, c, _] = *header;
        let from = u32::from_be_bytes([0, a, b, c]);
        let [to @ .., _, _, _, _, _, _] = *addresses;
        let [_, _, _, _, _, _, sender @ ..] = *addresses;
        checksum::complete(frame);
        self.seats.insert(sender, from);
        let ports = match self.seats.get(&to) {
            Some(port) => *port..*port + 1,
            None => 0..self.hosts,
        };
        let due = Instant::now() + self.delay;
        for port in ports.filter(|port| *port != from) {
            if !self.is_unlucky() {
                packet[4..7].copy_from_slice(&port.to_be_bytes()[1..]);
                self.under_way.push_back((due, packet.to_vec()));
            }
        }
    }

    /// A packet whose time has come.
    fn give(&mut self) -> Option<Vec<u8>> {
        self.next_due().filter(Duration::is_zero)?;
        self.under_way.pop_front().map(|(_, packet)| packet)
    }

    fn next_due(&self) -> Option<Duration> {
        let (due, _) = self.under_way.front()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Throws dice (xorshift) that fall the same way in every run.
    fn is_unlucky(&mut self) -> bool {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        ((self.dice % 100_000) as f64) < self.loss * 1000.0
    }
}

/// The two ends of the trunk, which only the switch and the relay see.
const SWITCH: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const RELAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SWITCH_PORT: u16 = 4789;
const RELAY_PORT: u16 = 4790;

const BURST: usize = 64 << 20;

/// How long the relay may sleep before it looks whether it is to stop.
const GLANCE: Duration = Duration::from_millis(50);
