use super::*;

/// Sends so many bytes from host 0 to host 1, and gives what came, and how it ended.
fn receive(
    net: &Net,
    count: usize,
    mut meanwhile: impl FnMut(usize),
) -> (Vec<u8>, io::Result<usize>) {
    let bytes: Vec<u8> = (0..count).map(|at| at as u8).collect();
    let (mut caller, mut sent) = (net.connect(0, 1), 0);
    let (mut listener, mut heard) = (None::<Socket>, Vec::new());
    loop {
        if let Ok(written) = caller.write(&bytes[sent..]) {
            sent += written;
        }
        let Some((host, event)) = net.next() else { return (heard, Ok(1)) };
        match (host, event) {
            (1, Event::Opened(socket)) => listener = Some(socket),
            (1, Event::Readable(_)) => {
                let mut scratch = [0; 4096];
                let listener = listener.as_mut().expect("whoever reads was connected to");
                while let Ok(read @ 1..) = listener.read(&mut scratch) {
                    heard.extend_from_slice(&scratch[..read]);
                }
                match listener.read(&mut scratch) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    end => return (heard, end),
                }
                meanwhile(heard.len());
            }
            _ => {}
        }
        if heard.len() == count {
            return (heard, Ok(1));
        }
    }
}

fn is_start(heard: &[u8]) -> bool {
    heard.iter().enumerate().all(|(at, byte)| *byte == at as u8)
}

#[test]
fn bytes_come_in_order_and_in_pieces() {
    let mut pieces = 0;
    for seed in 0..50 {
        let net = Net::new(seed, 2, false);
        let (heard, _) = receive(&net, 50_000, |_| {});
        assert!(heard.len() == 50_000 && is_start(&heard), "seed {seed}");
        pieces += net.faults().pieces;
    }
    assert!(pieces > 50);
}

#[test]
fn of_what_is_on_its_way_a_start_comes_whatever_ends_it() {
    let (mut cut, mut reset, mut closed, mut lost) = (0, 0, 0, 0);
    for seed in 0..150 {
        let net = Net::new(seed, 2, false);
        let mut harm = Some(seed % 3);
        let (heard, end) = receive(&net, 60_000, |_| match harm.take() {
            Some(0) => net.break_any(0),
            Some(1) => net.end(0),
            Some(_) => net.vanish(0),
            None => {}
        });
        assert!(is_start(&heard), "seed {seed}");
        cut += u64::from(heard.len() < 60_000);
        match end {
            Ok(0) => closed += 1,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => lost += 1,
            Err(_) => reset += 1,
        }
    }
    assert!(
        cut > 100 && [reset, closed, lost].iter().all(|&count| count > 20),
        "{cut} {reset} {closed} {lost}"
    );
}

#[test]
fn what_comes_to_one_who_stands_still_keeps_its_order() {
    for seed in 0..50 {
        let net = Net::new(seed, 2, false);
        net.stop(1, Duration::from_secs(1));
        net.alarm(0, net.clock(0), 0);
        let mut again = true;
        let mut socket = net.connect(0, 1);
        socket.write_all(b"hello").unwrap();
        let (mut order, mut kept) = (Vec::new(), Vec::new());
        while let Some((host, event)) = net.next() {
            if std::mem::take(&mut again) {
                net.stop(1, Duration::from_secs(2));
            }
            if host == 1 {
                order.push(matches!(event, Event::Opened(_)));
                kept.push(event);
            }
        }
        assert!(order[0] && !order[1..].contains(&true), "seed {seed}: {order:?}");
        assert!(net.now() >= Duration::from_secs(2));
    }
}

#[test]
fn nobody_is_reached_while_the_way_is_cut_and_clocks_disagree() {
    let net = Net::new(3, 2, false);
    net.cut([1, 0], Duration::from_secs(3));
    let mut caller = net.connect(0, 1);
    assert!(caller.write(b"x").is_ok());
    assert!(matches!(net.next(), Some((0, Event::Readable(_)))), "nobody could be reached");
    assert_eq!(caller.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    let (heard, _) = receive(&net, 10, |_| {});
    assert!(is_start(&heard) && heard.len() == 10);
    assert_ne!(net.clock(0), net.clock(1));
}
