//! Tests of listeners.

use std::thread;
use std::time::Instant;

use super::*;

#[test]
fn a_waiting_listener_is_stopped_at_once() {
    let listener = StoppableListener::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let address = listener.socket().local_addr().unwrap();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| std::iter::from_fn(|| listener.next(|_| ())).count());
        let _client = TcpStream::connect(address).unwrap();
        thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        listener.stop();
        assert_eq!(accepting.join().unwrap(), 1);
        assert!(begun.elapsed() < Duration::from_secs(5) && listener.is_stopped());
    });
    assert!(listener.next(|_| ()).is_none());
}

#[test]
fn a_listener_stops_when_its_work_is_cancelled() {
    let cancellation = Cancellation::default();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = StoppableListener::with_cancellation(socket, &cancellation).unwrap();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.next(|_| ()).is_none());
        thread::sleep(Duration::from_millis(20));
        cancellation.cancel();
        assert!(accepting.join().unwrap());
    });
}
