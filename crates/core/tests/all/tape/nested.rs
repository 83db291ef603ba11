//! A composite function recorded on a tape of its own is one node, with the derivatives of what is in it.

use super::support::*;
use madelung_core::Result;
use madelung_core::array::Array;
use madelung_core::tape::{Tape, Value, Var};

/// How the inner part is put on the tape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    Flat,
    Nested,
    Checkpoint,
    /// A checkpoint in a nested tape in a checkpoint.
    Deep,
}

pub(crate) const HOW: [How; 4] = [How::Flat, How::Nested, How::Checkpoint, How::Deep];

impl How {
    pub(crate) fn put<'c>(
        self,
        tape: &mut Tape<'c>,
        inputs: &[Var],
        record: impl FnOnce(&mut Tape<'c>, &[Var]) -> Result<Vec<Var>>,
    ) -> Result<Vec<Var>> {
        match self {
            Self::Flat => record(tape, inputs),
            Self::Nested => tape.nested(inputs, record),
            Self::Checkpoint => tape.checkpoint(inputs, record),
            Self::Deep => {
                tape.checkpoint(inputs, |t, x| t.nested(x, |t, x| t.checkpoint(x, |t, x| record(t, x))))
            }
        }
    }
}

/// `steps` waves one after the other, each with the same scale.
pub(crate) fn waves(tape: &mut Tape<'_>, x: Var, scale: Var, steps: usize) -> Result<Vec<Var>> {
    let op = wave();
    let mut y = x;
    for _ in 0..steps {
        y = tape.call(&op, vec![y.into(), scale.into()])?[0];
    }
    Ok(vec![y])
}

struct Recorded {
    tape: Tape<'static>,
    width: Var,
    positions: Var,
    energy: Var,
}

/// E = waves(embedded(r, waves(s))), the waves as `how` says.
fn record(atoms: &Atoms, how: How) -> Recorded {
    let mut tape = tape();
    let (r, s) =
        (tape.input(atoms.positions.try_clone().unwrap()), tape.input(atoms.width.try_clone().unwrap()));
    let scale = tape.constant(random(7, &[12]));
    let embedded = embedded(true);
    let all = |t: &mut Tape<'static>, v: &[Var]| {
        let width = waves(t, v[1], v[2], 2)?[0];
        let energy = t.call(&embedded, atoms.on_tape(v[0], width, false))?[0];
        // An output that is also used inside, and an input that is an output.
        Ok(vec![waves(t, energy, v[1], 1)?[0], energy, v[1]])
    };
    let y = how.put(&mut tape, &[r, s, scale], all).expect("recorded");
    let product = tape.call(&wave(), vec![y[0].into(), y[1].into()]).expect("a call")[0];
    let energy = tape.call(&wave(), vec![product.into(), y[2].into()]).expect("a call")[0];
    Recorded { tape, width: s, positions: r, energy }
}

#[test]
fn nested_is_flat() {
    let atoms = Atoms::new();
    let (w, v) = (random(3, &[12]), random(4, &[12, 3]));
    let mut all: Vec<Vec<Vec<f64>>> = vec![];
    for how in HOW {
        let Recorded { mut tape, width, positions, energy } = record(&atoms, how);
        let weight = tape.constant(w.try_clone().unwrap());
        tape.backward(&[(energy, w.try_clone().unwrap())]).expect("a backward pass");
        let mut arrays = vec![tape.value(energy).expect("a value").to_f64().unwrap()];
        arrays.extend([positions, width].map(|x| tape.gradient(x).expect("a gradient").to_f64().unwrap()));
        // Recorded, it is the same; and twice.
        let g = tape.differentiate(&[(energy, weight)], &[positions, width]).expect("recorded");
        let [by_r, by_s] = [0, 1].map(|n| g[n].expect("depends"));
        assert_eq!(
            arrays[1..],
            [by_r, by_s].map(|g| tape.value(g).expect("a value").to_f64().unwrap()),
            "{how:?}"
        );
        tape.zero();
        tape.backward(&[(by_r, v.try_clone().unwrap()), (by_s, w.try_clone().unwrap())])
            .expect("second order");
        arrays.extend([positions, width].map(|x| tape.gradient(x).expect("a gradient").to_f64().unwrap()));
        // Moved and replayed, first and second order follow.
        for (x, array, u) in [(positions, &atoms.positions, &v), (width, &atoms.width, &w)] {
            tape.set(x, moved(array, u, 0.03)).expect("an input");
        }
        tape.replay().expect("a replay");
        arrays.extend([energy, by_r, by_s].map(|x| tape.value(x).expect("a value").to_f64().unwrap()));
        tape.zero();
        tape.backward(&[(by_r, v.try_clone().unwrap()), (by_s, w.try_clone().unwrap())])
            .expect("second order");
        arrays.extend([positions, width].map(|x| tape.gradient(x).expect("a gradient").to_f64().unwrap()));
        all.push(arrays);
    }
    for (how, arrays) in HOW.iter().zip(&all).skip(1) {
        for (n, (flat, array)) in all[0].iter().zip(arrays).enumerate() {
            // Sums of what several calls contribute are in another order.
            assert!(difference(array, flat) < 1e-13, "{how:?}, array {n}");
        }
    }
    // Computed again, it has the same bits.
    assert_eq!(all[1], all[2]);
    assert_eq!(all[1], all[3]);
}

#[test]
fn derivatives_against_finite_differences() {
    let atoms = Atoms::new();
    let (w, u) = (random(3, &[12]), random(4, &[12, 3]));
    for how in HOW {
        let Recorded { mut tape, positions, energy, .. } = record(&atoms, how);
        let weight = tape.constant(w.try_clone().unwrap());
        let force = tape.differentiate(&[(energy, weight)], &[positions]).expect("recorded")[0];
        let force = force.expect("depends");
        tape.backward(&[(energy, w.try_clone().unwrap())]).expect("a backward pass");
        let first = dot(tape.gradient(positions).expect("a gradient"), &u);
        tape.zero();
        tape.backward(&[(force, u.try_clone().unwrap())]).expect("second order");
        let second = dot(tape.gradient(positions).expect("a gradient"), &u);
        let mut at = |h: f64, y: Var, w: &Array| {
            tape.set(positions, moved(&atoms.positions, &u, h)).expect("an input");
            tape.replay().expect("a replay");
            dot(tape.value(y).expect("a value"), w)
        };
        let (energy_slope, force_slope) = (slope(|h| at(h, energy, &w)), slope(|h| at(h, force, &u)));
        assert!((first / energy_slope - 1.0).abs() < 1e-8, "{how:?}: {first} {energy_slope}");
        assert!((second / force_slope - 1.0).abs() < 1e-8, "{how:?}: {second} {force_slope}");
    }
}

/// An inner constant stays where the arrays around it are dropped.
#[test]
fn constants_inside() {
    for how in [How::Nested, How::Checkpoint, How::Deep] {
        let mut tape = tape();
        let x = tape.input(random(1, &[4]));
        let y = how
            .put(&mut tape, &[x], |t, x| {
                let scale = t.constant(random(2, &[4]));
                waves(t, x[0], scale, 2)
            })
            .expect("recorded")[0];
        let before = tape.value(y).expect("a value").to_f64().unwrap();
        tape.replay().expect("a replay");
        assert_eq!(tape.value(y).expect("a value").to_f64().unwrap(), before);
        tape.backward(&[(y, random(3, &[4]))]).expect("a backward pass");
        assert!(tape.gradient(x).is_some());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tape = tape();
    let x = tape.input(random(1, &[4]));
    let mut other = self::tape();
    let foreign = other.input(random(1, &[4]));
    names(tape.nested(&[foreign], |_, x| Ok(x.to_vec())), "var");
    // A variable of the outer tape on the inner one.
    names(tape.nested(&[x], |t, inner| waves(t, inner[0], x, 1)), "var");
    names(tape.nested(&[x], |_, _| Ok(vec![x])), "var");
    names(tape.call(&wave(), vec![x.into(), foreign.into()]), "var");
    names(tape.differentiate(&[(x, x)], &[foreign]), "var");
    // What is set inside is stale outside as well.
    let set = tape.nested(&[x], |t, inner| {
        let scale = t.input(random(2, &[4]));
        let y = waves(t, inner[0], scale, 1)?;
        t.set(scale, random(3, &[4]))?;
        Ok(y)
    });
    names(set, "tape");
    names(tape.nested(&[x], |t, inner| t.call(&sum(), vec![inner[0].into(), Value::Zero])), "atoms");
    // The tape itself is as it was.
    let y = tape.nested(&[x], |_, x| Ok(x.to_vec())).expect("the identity")[0];
    tape.backward(&[(y, random(5, &[4]))]).expect("a backward pass");
    assert!(tape.gradient(x).expect("a gradient").equals(&random(5, &[4])).unwrap());
}
