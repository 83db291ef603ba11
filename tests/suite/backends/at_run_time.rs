//! The library's kernels, made once more at run time from their sources: every launch of the suite runs both, bit for bit.

use super::is_in_turn;
use crate::every_form::{has_pairs, plan, run_all};
use crate::kinds;
use crate::parts::is_launched;
use madelung::Result;
use madelung::array::{Array, DType, Place};
use madelung::backend::pool::Serial;
use madelung::backend::{Context, PairLoops};
use madelung::cpu::{Cpu, Isa};
use madelung::pairs::Kind;
use madelung_core::backend::Backend;
use madelung_core::backend::{Bound, Launch, LaunchArgs};
use madelung_core::runtime::{Kernel, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Both kinds of kernels, one after the other, and the numbers that each part of the library gave.
struct Twice {
    cpu: Cpu,
    ran: Mutex<BTreeMap<usize, usize>>,
}

madelung_stand_in::launches_by!(Twice, |twice, context, args| twice.launch(context, args));

/// A part of the kernel that is made of another one's source, at the place of a part of that one: made once.
fn counterpart(kernel: &Kernel, part: &'static Part) -> (&'static Kernel, &'static Part) {
    static MADE: Mutex<BTreeMap<usize, (&Kernel, &Part)>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    *made.entry(std::ptr::from_ref(part) as usize).or_insert_with(|| make(kernel, part))
}

fn make(kernel: &Kernel, part: &Part) -> (&'static Kernel, &'static Part) {
    let made = madelung::runtime::kernels(kernel.source);
    let made = made.unwrap_or_else(|e| panic!("{}: {e}\n{}", kernel.name, kernel.source));
    let made = made.iter().find(|made| made.name == kernel.name).expect("of this name").kernel();
    let mut places = kernel.forms.iter().zip(made.forms).flat_map(|(f, g)| f.parts.iter().zip(g.parts));
    let (_, found) = places.find(|(p, _)| std::ptr::eq(*p, part)).expect("a part of the kernel");
    (made, found)
}

fn bits(array: &Array) -> Vec<u64> {
    array.view().to_f64().expect("an array of the host").iter().map(|x| x.to_bits()).collect()
}

impl Twice {
    fn launch(&self, context: &Context<'_>, launch: &mut Launch<'_>) -> Result<()> {
        let (kernel, part) = counterpart(launch.kernel, launch.part);
        let name = format!("{} on {:?} in {:?}", part.cuda.name, self.cpu.isa(), launch.dtype);
        let copy = |array: &Array| array.view().to_array().expect("an array of the host");
        let mut copies: Vec<Option<Array>> = launch
            .arrays
            .iter()
            .map(|(_, bound)| match bound {
                Bound::Output { array, .. } => Some(copy(array)),
                Bound::Input(_) | Bound::Unwanted => None,
            })
            .collect();
        let arrays = launch.arrays.iter().zip(&mut copies).map(|((key, bound), copy)| {
            let bound = match (bound, copy) {
                (Bound::Input(view), _) => Bound::Input(view.clone()),
                (Bound::Output { adds, .. }, Some(array)) => Bound::Output { array, adds: *adds },
                (Bound::Output { .. } | Bound::Unwanted, _) => Bound::Unwanted,
            };
            (*key, bound)
        });
        let args = LaunchArgs {
            kernel,
            part,
            dtype: launch.dtype,
            dims: launch.dims,
            arrays: arrays.collect(),
            structures: launch.structures.clone(),
            reals: launch.reals.clone(),
            ints: launch.ints.clone(),
            status: launch.status,
            word: None,
        };
        self.cpu.launch(context, &mut Launch::new(args, Place::Host)?)?;
        self.cpu.launch(context, launch)?;
        let mut numbers = 0;
        for ((key, bound), made) in launch.arrays.iter().zip(&copies) {
            if let (Bound::Output { array, .. }, Some(made)) = (bound, made) {
                let (got, want) = (bits(made), bits(array));
                let differ = got.iter().zip(&want).filter(|(x, y)| x != y).count();
                assert_eq!(differ, 0, "{name}: {key:?}, of {} numbers", want.len());
                numbers += want.len();
            }
        }
        let part = std::ptr::from_ref(launch.part) as usize;
        *self.ran.lock().unwrap_or_else(PoisonError::into_inner).entry(part).or_default() += numbers;
        Ok(())
    }
}

/// By the way back of a list that has none of its own, or scattered.
const HOW: [(Kind, bool); 3] = [(Kind::Full, false), (Kind::Half, false), (Kind::Directed, true)];

/// The loops of full lists; others go row by row.
const ALL_LOOPS: [PairLoops; 2] = [PairLoops::Rows, PairLoops::Clusters];

#[test]
fn kernels_made_at_run_time_have_the_bits_of_the_library() {
    if !is_in_turn(5, 6) {
        return;
    }
    let (mut ran, mut numbers, mut all) = (BTreeSet::new(), 0, BTreeMap::new());
    let registries = madelung::registries().into_iter().chain([kinds::registry()]);
    for op in registries.flat_map(|registry| registry.iter()) {
        let kernels = op.steps().iter().filter_map(|step| step.kernel());
        let parts = kernels.flat_map(|k| k.forms).flat_map(|f| f.parts).filter(|part| is_launched(part));
        all.extend(parts.map(|part| (std::ptr::from_ref(part) as usize, part.cuda.name)));
        for isa in Isa::available() {
            let hows = if has_pairs(op) { &HOW[..] } else { &HOW[1..2] };
            for (dtype, (pairs, scatter)) in
                [DType::F64, DType::F32].into_iter().flat_map(|d| hows.iter().map(move |how| (d, *how)))
            {
                let twice = Twice { cpu: Cpu::at_most(*isa), ran: Mutex::default() };
                let on = Context { backend: &twice, pool: &Serial, ..madelung::cpu::context() };
                let loops = if pairs == Kind::Full { &ALL_LOOPS[..] } else { &ALL_LOOPS[..1] };
                for pair_loops in loops {
                    let context = Context { pair_loops: *pair_loops, scatter, ..on };
                    // More rows than lanes, and every set of gradients once.
                    for n in [5, 18] {
                        run_all(op, &plan(op, n, dtype, pairs), &context, n == 5);
                    }
                }
                let of = twice.ran.into_inner().unwrap_or_else(PoisonError::into_inner);
                numbers += of.values().sum::<usize>();
                ran.extend(of.into_keys());
            }
        }
    }
    println!("{} parts, {numbers} numbers", ran.len());
    let missed: Vec<&str> =
        all.iter().filter(|(part, _)| !ran.contains(*part)).map(|(_, name)| *name).collect();
    assert!(missed.is_empty(), "never launched: {missed:?}");
}
