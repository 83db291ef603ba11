//! With saved outputs the backward pass launches less and gives the same numbers.

use super::support::*;
use approx::assert_relative_eq;
use madelung_core::array::{Array, View};
use madelung_core::op::{Arg, Cotangent, Op, Request};
use std::sync::Arc;

fn args(atoms: &Atoms, batch: bool) -> Vec<Arg<'_>> {
    let mut args = vec![
        Arg::Array(atoms.positions.view()),
        Arg::Array(atoms.width.view()),
        Arg::Structure(&*atoms.pairs),
    ];
    args.extend(batch.then_some(Arg::Structure(&*atoms.batch)));
    args
}

fn views(saved: &[Option<Array>]) -> Vec<Option<View<'_>>> {
    saved.iter().map(|a| a.as_ref().map(Array::view)).collect()
}

#[test]
fn saved_arrays_are_not_computed_again() {
    let (atoms, op) = (Atoms::new(), embedded(true));
    let (backend, bytes) = (Counting::default(), Bytes::default());
    let context = on(&backend, &bytes);
    let args = args(&atoms, false);
    assert_eq!(op.saved().iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["rho"]);
    let forward = Request { values: true, save: Some(&[0, 1]), ..Request::default() };
    let done = op.evaluate(&context, &args, &forward).expect("values");
    let plain = op.value(&context, &args).expect("values");
    assert!(done.values.len() == 1 && done.values[0].equals(&plain[0]).unwrap());
    let saved = views(&done.saved);
    let w = random(3, &[12]);
    let u = random(4, &[12, 3]);
    let cotangents = [Some(Cotangent::Array(w.view()))];
    let along: &[Option<View<'_>>] = &[Some(u.view()), None, None];
    backend.launches();
    for (directions, fewer) in [(&[][..], 1), (&[along][..], 0)] {
        let request =
            Request { cotangents: &cotangents, gradients: &[0, 1], directions, ..Request::default() };
        let plain = op.evaluate(&context, &args, &request).expect("a gradient").gradients;
        let launches = backend.launches();
        let request = Request { saved: &saved, ..request };
        let with = op.evaluate(&context, &args, &request).expect("a gradient").gradients;
        // The same arrays by the same launches: the same bits.
        assert!(plain.len() == 2 && plain.iter().zip(&with).all(|(a, b)| a.equals(b).unwrap()));
        assert_eq!(backend.launches(), launches - fewer);
    }
    // A direction that reaches no step: none is run.
    let none: &[Option<View<'_>>] = &[None, None, None];
    let request = Request { directions: &[none], saved: &saved, ..Request::default() };
    let tangent = op.evaluate(&context, &args, &request).expect("a tangent");
    assert_eq!((tangent.values[0].to_f64().unwrap(), backend.launches()), (vec![0.0; 12], 0));
}

#[test]
fn saved_gradients_are_scaled() {
    let atoms = Atoms::new();
    let (plain, op) = (total(&[]).expect("an op"), total(&["positions", "width"]).expect("an op"));
    let (backend, bytes) = (Counting::default(), Bytes::default());
    let context = on(&backend, &bytes);
    let args = args(&atoms, true);
    let save = |by| {
        let request = Request { values: true, save: Some(by), ..Request::default() };
        op.evaluate(&context, &args, &request).expect("values")
    };
    let both = save(&[0, 1]);
    let want = plain.value(&context, &args).expect("values");
    assert!(difference(&both.values[0].to_f64().unwrap(), &want[0].to_f64().unwrap()) < 1e-15);
    let one = save(&[1]);
    assert!(one.saved[0].is_none() && one.saved[1].is_some());
    let w = random(3, &[2]);
    for cotangent in [Cotangent::Array(w.view()), Cotangent::Uniform(-0.7)] {
        let cotangents = [Some(cotangent)];
        for gradients in [&[0][..], &[1, 0]] {
            let request = Request { cotangents: &cotangents, gradients, ..Request::default() };
            let want = plain.evaluate(&context, &args, &request).expect("a gradient").gradients;
            backend.launches();
            let (all, some) = (views(&both.saved), views(&one.saved));
            for (saved, scales) in [(all, true), (some, false)] {
                let request = Request { saved: &saved, ..request.clone() };
                let got = op.evaluate(&context, &args, &request).expect("a gradient").gradients;
                // What is missing is computed.
                assert_eq!(backend.launches() == 0, scales);
                for (got, want) in got.iter().zip(&want) {
                    assert!(difference(&got.to_f64().unwrap(), &want.to_f64().unwrap()) < 1e-14);
                }
            }
        }
    }
}

/// On a tape, the backward pass of system energies is a scale; the second order is what it is without.
#[test]
fn tapes_save() {
    let atoms = Atoms::new();
    let w = random(3, &[2]);
    let v = random(5, &[12, 3]);
    let mut all = vec![];
    for saved in [&[][..], &["positions"], &["positions", "width"]] {
        let op = total(saved).expect("an op");
        let (backend, bytes) = (Counting::default(), Bytes::default());
        let mut tape = madelung_core::tape::Tape::new(on(&backend, &bytes));
        let (x, s) =
            (tape.input(atoms.positions.try_clone().unwrap()), tape.input(atoms.width.try_clone().unwrap()));
        let y = tape.call(&op, atoms.on_tape(x, s, true)).expect("a call")[0];
        backend.launches();
        tape.backward(&[(y, w.try_clone().unwrap())]).expect("a backward pass");
        let launches = backend.launches();
        assert_eq!(launches == 0, saved.len() == 2, "{launches} with {saved:?}");
        let first = tape.gradient(x).expect("a gradient").to_f64().unwrap();
        let weight = tape.constant(w.try_clone().unwrap());
        let force = tape.differentiate(&[(y, weight)], &[x]).expect("recorded")[0].expect("depends");
        assert_eq!(backend.launches() == 0, !saved.is_empty());
        tape.zero();
        tape.backward(&[(force, v.try_clone().unwrap())]).expect("second order");
        all.push([
            first,
            tape.gradient(x).expect("a gradient").to_f64().unwrap(),
            tape.gradient(s).expect("one").to_f64().unwrap(),
        ]);
        // Moved and replayed, the saved gradients are those of the new positions.
        tape.set(x, moved(&atoms.positions, &v, 0.1)).expect("an input");
        tape.replay().expect("a replay");
        let numerical = slope(|h| {
            let mut tape = tape_of(&atoms, &op);
            let at = moved(&moved(&atoms.positions, &v, 0.1), &v, h);
            tape.0.set(tape.1, at).expect("an input");
            tape.0.replay().expect("a replay");
            dot(tape.0.value(tape.2).expect("a value"), &w)
        });
        let forces = tape.value(force).expect("forces");
        assert_relative_eq!(dot(forces, &v), numerical, max_relative = 1e-9);
        drop(tape);
        assert_eq!(bytes.live(), 0);
    }
    for other in &all[1..] {
        for (a, b) in all[0].iter().zip(other) {
            assert!(difference(a, b) < 1e-14);
        }
    }
}

type OnTape = (madelung_core::tape::Tape<'static>, madelung_core::tape::Var, madelung_core::tape::Var);

fn tape_of(atoms: &Atoms, op: &Arc<Op>) -> OnTape {
    let mut tape = tape();
    let (x, s) =
        (tape.input(atoms.positions.try_clone().unwrap()), tape.input(atoms.width.try_clone().unwrap()));
    let y = tape.call(op, atoms.on_tape(x, s, true)).expect("a call")[0];
    (tape, x, y)
}

#[test]
fn what_does_not_fit_is_refused() {
    let (atoms, context) = (Atoms::new(), madelung_cpu::context());
    let op = embedded(true);
    let args = args(&atoms, false);
    let run = |request: &Request<'_, '_>| op.evaluate(&context, &args, request).map(|_| ());
    let (wrong, w) = (random(1, &[11]), random(2, &[12]));
    let cotangents = [Some(Cotangent::Array(w.view()))];
    let request = Request { cotangents: &cotangents, gradients: &[0], ..Request::default() };
    names(run(&Request { saved: &[Some(wrong.view())], ..request.clone() }), "saved rho");
    names(run(&Request { saved: &[None, None], ..request.clone() }), "saved");
    names(run(&Request { save: Some(&[0]), ..request.clone() }), "save");
    names(run(&Request { save: Some(&[2]), ..Request::default() }), "save");
    names(run(&Request { save: Some(&[9]), ..Request::default() }), "save");
    // Gradients that cannot be saved: of what is no array, and of per-atom energies.
    names(total(&["pairs"]).map(|_| ()), "pairs");
    names(total(&["nothing"]).map(|_| ()), "nothing");
    let per_atom = Op::new("test", "per_atom", 1).real("positions", &["Atom", "3"]).real("width", &["Atom"]);
    let per_atom = per_atom.pairs("pairs", "Atom").output("rho", &["Atom"]).saved_gradients(&["positions"]);
    names(per_atom.step(op.steps()[0].kernel().expect("a kernel")).build().map(|_| ()), "pairs");
}
