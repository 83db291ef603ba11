//! Bytes that a counting allocator sees: what is given back when its last user has run, and what a checkpoint saves.

use super::nested::{HOW, How, waves};
use super::support::*;
use madelung_core::tape::{Retain, Tape};

const ROWS: usize = 1000;
/// One array.
const BYTES: usize = 8 * ROWS;

struct Measured {
    /// After the forward pass.
    kept: usize,
    peak: usize,
    /// After the backward pass.
    left: usize,
    gradients: Vec<Vec<f64>>,
}

/// `regions` times `steps` waves.
fn measure(how: How, regions: usize, steps: usize, retain: Retain) -> Measured {
    let (backend, bytes) = (Counting::default(), Bytes::default());
    let measured = {
        let mut tape = Tape::new(on(&backend, &bytes));
        let (x, scale) = (tape.input(random(1, &[ROWS])), tape.input(random(2, &[ROWS])));
        let mut y = x;
        for _ in 0..regions {
            let region = |t: &mut Tape<'_>, v: &[_]| waves(t, v[0], v[1], steps);
            y = how.put(&mut tape, &[y, scale], region).expect("recorded")[0];
        }
        let kept = bytes.live();
        tape.backward_with(&[(y, random(3, &[ROWS]))], retain).expect("a backward pass");
        assert!(tape.value(y).is_ok());
        let gradients = [x, scale].map(|x| tape.gradient(x).expect("a gradient").to_f64().unwrap()).to_vec();
        Measured { kept, peak: bytes.peak(), left: bytes.live(), gradients }
    };
    assert_eq!(bytes.live(), 0, "a tape gives everything back");
    measured
}

#[test]
fn arrays_are_freed_behind_their_last_user() {
    let (steps, gradients) = (20, 2);
    for how in [How::Flat, How::Nested] {
        let all = measure(how, 1, steps, Retain::Everything);
        let outputs = measure(how, 1, steps, Retain::Outputs);
        assert_eq!(all.gradients, outputs.gradients);
        assert_eq!((all.kept, outputs.kept), (steps * BYTES, steps * BYTES));
        // Everything stays, and on top of it come the two gradients; or the end of the chain and the gradients.
        assert_eq!(all.left, (steps + gradients) * BYTES);
        assert_eq!(outputs.left, (1 + gradients) * BYTES);
        // A call's two gradients and their two sums are the most there is at one time: without retention an array of
        // the chain goes for each that comes.
        println!("{how:?}: peak {} and {} arrays", all.peak / BYTES, outputs.peak / BYTES);
        assert!(all.peak <= (steps + 5) * BYTES);
        assert!(outputs.peak <= (steps + 4) * BYTES && outputs.peak < all.peak);
    }
}

/// A chain that is differentiated through its gradient: the recorded pass is freed as well.
#[test]
fn second_order_is_freed() {
    let peak = |retain| {
        let (backend, bytes) = (Counting::default(), Bytes::default());
        let mut tape = Tape::new(on(&backend, &bytes));
        let (x, scale) = (tape.input(random(1, &[ROWS])), tape.input(random(2, &[ROWS])));
        let y = waves(&mut tape, x, scale, 10).expect("recorded")[0];
        let w = tape.constant(random(3, &[ROWS]));
        let g = tape.differentiate(&[(y, w)], &[x]).expect("recorded")[0].expect("depends");
        let before = bytes.live();
        tape.backward_with(&[(g, random(4, &[ROWS]))], retain).expect("second order");
        (bytes.peak() - before, bytes.live(), tape.gradient(x).expect("a gradient").to_f64().unwrap())
    };
    let (all, outputs) = (peak(Retain::Everything), peak(Retain::Outputs));
    assert_eq!(all.2, outputs.2);
    println!("beyond the recorded arrays: {} and {} arrays", all.0 / BYTES, outputs.0 / BYTES);
    assert!(outputs.0 < all.0 && outputs.1 < all.1);
    assert_eq!(outputs.1, 3 * BYTES, "the forces and two gradients");
}

#[test]
fn a_spent_tape_says_so() {
    for how in HOW {
        let mut tape = tape();
        let (x, scale) = (tape.input(random(1, &[4])), tape.input(random(2, &[4])));
        let y = how.put(&mut tape, &[x, scale], |t, v| waves(t, v[0], v[1], 2)).expect("recorded")[0];
        let z = tape.call(&wave(), vec![y.into(), scale.into()]).expect("a call")[0];
        let w = random(3, &[4]);
        let weight = tape.constant(w.try_clone().unwrap());
        tape.backward_with(&[(z, w.try_clone().unwrap())], Retain::Outputs).expect("a backward pass");
        assert!(tape.value(z).is_ok() && tape.gradient(x).is_some());
        for gone in [x, y, scale] {
            names(tape.value(gone).map(|_| ()), "var");
        }
        names(tape.replay(), "tape");
        names(tape.backward(&[(z, w.try_clone().unwrap())]), "tape");
        names(tape.backward_with(&[(z, w.try_clone().unwrap())], Retain::Outputs), "tape");
        names(tape.differentiate(&[(z, weight)], &[x]), "tape");
        names(tape.set(x, random(1, &[4])), "tape");
        names(tape.call(&wave(), vec![z.into(), z.into()]), "tape");
        names(tape.nested(&[z], |_, v| Ok(v.to_vec())), "tape");
    }
    // A pass that is refused spends nothing.
    let mut tape = tape();
    let x = tape.input(random(1, &[4]));
    names(tape.backward_with(&[(x, random(1, &[5]))], Retain::Outputs), "cotangent");
    assert!(tape.replay().is_ok());
}

#[test]
fn checkpoints_keep_what_goes_in_and_comes_out() {
    let (regions, steps) = (8, 8);
    for retain in [Retain::Everything, Retain::Outputs] {
        let keeping = measure(How::Nested, regions, steps, retain);
        let recomputing = measure(How::Checkpoint, regions, steps, retain);
        assert_eq!(keeping.gradients, recomputing.gradients, "the same bits");
        assert_eq!(keeping.kept, regions * steps * BYTES);
        assert_eq!(recomputing.kept, regions * BYTES);
        println!("{retain:?}: peak {} and {} arrays", keeping.peak / BYTES, recomputing.peak / BYTES);
        // The borders of the regions, one region, and the gradients of one call with their sums.
        assert!(recomputing.peak <= (regions + steps + 6) * BYTES);
        assert!(keeping.peak >= regions * steps * BYTES);
    }
}
