//! Grids on tapes.

use super::support::{Arguments, Inputs, RADIUS, array, batches, blur_op, grid, inputs, shapes};
use super::{along, answers, weights};
use madelung_core::array::{Array, DType};
use madelung_core::op::Arg;
use madelung_core::tape::{Tape, Value, Var};
use madelung_neighbors::grid::HashGrid;
use std::sync::Arc;

/// The position of the call on the tape.
#[derive(Clone, Copy, Debug)]
enum Nesting {
    Flat,
    Nested,
    Checkpoint,
}

fn record(tape: &mut Tape<'static>, nesting: Nesting, vars: &[Var], grid: &Arc<HashGrid>) -> Vec<Var> {
    let grid = grid.clone();
    let call = move |tape: &mut Tape<'static>, vars: &[Var]| {
        let mut args: Vec<Value> = vars.iter().map(|v| (*v).into()).collect();
        args.push(Value::Real(RADIUS));
        args.extend(batches().map(|b| Value::Structure(Arc::new(b))));
        args.push(Value::Grid(grid));
        tape.call(&blur_op(false), args)
    };
    match nesting {
        Nesting::Flat => call(tape, vars),
        Nesting::Nested => tape.nested(vars, call),
        Nesting::Checkpoint => tape.checkpoint(vars, |t, x| t.nested(x, call)),
    }
    .unwrap()
}

fn put(tape: &mut Tape<'static>, inputs: &Inputs) -> Vec<Var> {
    inputs.iter().zip(shapes()).map(|(x, s)| tape.input(array(DType::F64, &s, x))).collect()
}

/// Values, gradients and Hessian-vector products, as the op gives them itself.
#[test]
fn a_tape_differentiates_as_the_op_does() {
    let (inputs, v) = (inputs(), along(5.0));
    for nesting in [Nesting::Flat, Nesting::Nested, Nesting::Checkpoint] {
        let grid = Arc::new(grid(&inputs));
        let given = Arguments::new(&inputs, DType::F64);
        let want = answers(
            &madelung_cpu::context(),
            &blur_op(false),
            &given.with(Arg::Grid(&*grid)),
            DType::F64,
            &v,
        );
        let mut tape = Tape::new(madelung_cpu::context());
        let vars = put(&mut tape, &inputs);
        let y = record(&mut tape, nesting, &vars, &grid);
        // The tape keeps its inputs.
        drop(grid);
        let seeds: Vec<(Var, Array)> = y.iter().copied().zip(weights(DType::F64)).collect();
        tape.backward(&seeds).unwrap();
        for (n, x) in vars.iter().enumerate() {
            let got = tape.gradient(*x).expect("a gradient");
            assert!(got.equals(&want.gradients[n]).unwrap(), "{nesting:?}, {n}");
        }
        let seeds: Vec<(Var, Var)> =
            y.iter().copied().zip(weights(DType::F64).map(|w| tape.constant(w))).collect();
        let first = tape.differentiate(&seeds, &vars).unwrap();
        let seeds: Vec<(Var, Var)> = (0..5)
            .map(|n| (first[n].unwrap(), tape.constant(array(DType::F64, &shapes()[n], &v[n]))))
            .collect();
        let second = tape.differentiate(&seeds, &vars).unwrap();
        for (n, (got, want)) in second.iter().zip(&want.products).enumerate() {
            assert!(tape.value(got.unwrap()).unwrap().equals(want).unwrap(), "{nesting:?}, {n}");
        }
    }
}

/// Queries may move: their points are searched again. Points may not: the grid is another one then.
#[test]
fn replays() {
    let inputs = inputs();
    for nesting in [Nesting::Flat, Nesting::Nested, Nesting::Checkpoint] {
        let mut tape = Tape::new(madelung_cpu::context());
        let vars = put(&mut tape, &inputs);
        let y = record(&mut tape, nesting, &vars, &Arc::new(grid(&inputs)));
        let mut moved = inputs.clone();
        moved[0].iter_mut().for_each(|x| *x = 0.7 * *x + 0.3);
        tape.set(vars[0], array(DType::F64, &shapes()[0], &moved[0])).unwrap();
        tape.replay().unwrap();
        let (given, there) = (Arguments::new(&moved, DType::F64), grid(&moved));
        let want = blur_op(false).value(&madelung_cpu::context(), &given.with(Arg::Grid(&there))).unwrap();
        for (y, want) in y.iter().zip(&want) {
            assert!(tape.value(*y).unwrap().equals(want).unwrap(), "{nesting:?}");
        }
        moved[1][0] += 0.1;
        tape.set(vars[1], array(DType::F64, &shapes()[1], &moved[1])).unwrap();
        let error = tape.replay().unwrap_err().to_string();
        assert!(error.starts_with("`list`: expected a grid of the call's points"), "{error}");
    }
}
