//! The library's kernels, made once more at run time from their sources: every launch of the suite runs both, bit for bit.

use super::asked::each;
use super::calls::{Input, inputs};
use madelung::Result;
use madelung::array::{Array, DType, Place};
use madelung::backend::pool::Serial;
use madelung::backend::{Context, PairLoops};
use madelung::cpu::{Cpu, Isa};
use madelung_core::backend::Backend;
use madelung_core::backend::{Bound, Launch, LaunchArgs};
use madelung_core::runtime::{Kernel, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Both kinds of kernels, one after the other, and the parts that ran.
struct Twice {
    cpu: Cpu,
    ran: Mutex<BTreeMap<String, usize>>,
}

madelung_stand_in::launches_by!(Twice, |twice, context, args| twice.launch(context, args));

/// A part of the kernel that is made of another one's source, at the place of a part of that one.
fn counterpart(kernel: &Kernel, part: &Part) -> (&'static Kernel, &'static Part) {
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
        let name = format!("{} on {:?} in {:?}", part.cuda.name, self.cpu.isa(), launch.dtype);
        for ((key, bound), made) in launch.arrays.iter().zip(&copies) {
            if let (Bound::Output { array, .. }, Some(made)) = (bound, made) {
                let (got, want) = (bits(made), bits(array));
                let differ = got.iter().zip(&want).filter(|(x, y)| x != y).count();
                assert_eq!(differ, 0, "{name}: {key:?}, of {} numbers", want.len());
            }
        }
        *self.ran.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
        Ok(())
    }
}

/// Runs every question of the suite, gathered or scattered; the parts that ran.
fn run(isa: Isa, inputs: &[Input], scatters: &[bool]) -> BTreeSet<String> {
    let twice = Twice { cpu: Cpu::at_most(isa), ran: Mutex::default() };
    for &scatter in scatters {
        let context = Context {
            backend: &twice,
            pool: &Serial,
            pair_loops: PairLoops::Rows,
            scatter,
            ..madelung::cpu::context()
        };
        each(inputs, |asked| {
            asked.ask(&context);
        });
    }
    twice.ran.into_inner().unwrap_or_else(PoisonError::into_inner).into_keys().collect()
}

#[test]
fn kernels_made_at_run_time_have_the_bits_of_the_library() {
    let mut ran = BTreeSet::new();
    for isa in Isa::available() {
        ran.extend(run(*isa, &inputs(DType::F64), &[false, true]));
        // In f32 the batch alone: parts are those of f64, on other lanes.
        let mut single = inputs(DType::F32);
        let batch = single.split_off(single.len() / 2);
        ran.extend(run(*isa, &batch, &[false]));
    }
    println!("{} parts", ran.len());
    for op in madelung::registries().into_iter().flat_map(|r| r.iter()) {
        for kernel in op.steps().iter().filter_map(|step| step.kernel()) {
            let start = format!("{}_value_0 ", kernel.name);
            assert!(ran.iter().any(|part| part.starts_with(&start)), "{} did not run", kernel.name);
        }
    }
}
