//! Good and bad arguments of every op, made from its declaration: only `Ok` and `Err`, never a panic, never a hang.
//!
//! A call is made of choices, numbers of which 0 is the plain one, so that what fails shrinks to a call with one thing
//! wrong. `MADELUNG_FUZZ_CALLS` in the environment says how many calls there are (`make fuzz`), and `MADELUNG_FUZZ_SEED`
//! repeats those of an earlier run, which prints its seed.
//!
//! A binary of its own: a call that hangs ends its process.

#[path = "../common/mod.rs"]
mod common;

#[path = "../common/declared.rs"]
mod declared;

#[path = "../common/kinds.rs"]
mod kinds;

mod calls;
mod choices;

use calls::{Tally, enough};
use choices::Choices;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A call of a few atoms that takes as long does not end.
const HANGS: Duration = Duration::from_secs(120);

/// Writes a line that the test's harness does not hold back, which is lost where the process ends.
fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

#[test]
fn only_ok_and_err() {
    let asked = std::env::var("MADELUNG_FUZZ_CALLS").ok().map(|n| n.parse().expect("a number of calls"));
    let calls = asked.unwrap_or_else(enough);
    let config = Config { cases: calls, failure_persistence: None, ..Config::default() };
    let given = std::env::var("MADELUNG_FUZZ_SEED").ok().map(|n| n.parse().expect("a seed"));
    let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    say(&format!("{calls} calls, MADELUNG_FUZZ_SEED={seed}"));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 4].concat());
    let mut runner = TestRunner::new_with_rng(config, rng);
    let (begun, watched) = channel::<Vec<u32>>();
    let watchdog = std::thread::spawn(move || {
        let mut last = vec![];
        loop {
            match watched.recv_timeout(HANGS) {
                Ok(choices) => last = choices,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    say(&format!("a call does not end: {last:?}"));
                    std::process::abort();
                }
            }
        }
    });
    let tally = RefCell::new(Tally::default());
    let result = runner.run(&proptest::collection::vec(proptest::num::u32::ANY, 0..80), |data| {
        begun.send(data.clone()).expect("the watchdog lives");
        calls::one(&mut Choices::new(data), &mut tally.borrow_mut()).map_err(TestCaseError::fail)
    });
    drop(begun);
    watchdog.join().expect("the watchdog ends");
    if let Err(failure) = result {
        panic!("{failure}");
    }
    tally.into_inner().check();
}
