//! Kernels that are not differentiated, on the CPU with one thread and several, and as CUDA text through the host's
//! C++ compiler: every test runs all of them and wants the same numbers.

mod host;
mod in_out;
mod kernels;
mod launches;
mod ops;

use host::Host;
use madelung_core::array::{Array, DType, Place, View};
use madelung_core::backend::Backend;
use madelung_core::backend::pool::{Pool, Serial, Threads};
use madelung_core::backend::status::Word;
use madelung_core::backend::{Bound, Launch, LaunchArgs};
use madelung_core::runtime::{Kernel, ParamKind, Role};
use madelung_core::structure::{Batch, PairList, Structure};
use madelung_core::{Error, Result};
use madelung_cpu::Cpu;
use madelung_stand_in::Order;
use std::collections::BTreeMap;

/// Arguments of a call, by name.
#[derive(Default)]
struct Call<'a> {
    dtype: Option<DType>,
    dims: BTreeMap<&'static str, usize>,
    inputs: BTreeMap<&'static str, Array>,
    outputs: BTreeMap<&'static str, Array>,
    batches: BTreeMap<&'static str, Batch<'a>>,
    pairs: BTreeMap<&'static str, PairList<'a>>,
    reals: Vec<f64>,
    ints: Vec<i64>,
}

/// The outputs of a launch by name, and the error of its status word.
type Outcome = (BTreeMap<&'static str, Array>, Option<Error>);

fn assert_equal(found: &Outcome, expected: &Outcome, by: &str) {
    assert_eq!(found.1, expected.1, "{by}");
    for (name, array) in &expected.0 {
        assert!(array.equals(&found.0[name]).unwrap(), "{name}, {by}: {found:?}, not {expected:?}");
    }
}

impl<'a> Call<'a> {
    fn dim(mut self, name: &'static str, size: usize) -> Self {
        self.dims.insert(name, size);
        self
    }

    fn input<'v>(mut self, name: &'static str, array: impl Into<View<'v>>) -> Self {
        self.inputs.insert(name, array.into().to_array().unwrap());
        self
    }

    fn output(mut self, name: &'static str, dtype: DType, shape: &[usize]) -> Self {
        self.outputs.insert(name, Array::zeros(dtype, shape));
        self
    }

    /// An output that holds something.
    fn held<'v>(mut self, name: &'static str, array: impl Into<View<'v>>) -> Self {
        self.outputs.insert(name, array.into().to_array().unwrap());
        self
    }

    fn ints(mut self, ints: &[i64]) -> Self {
        self.ints = ints.to_vec();
        self
    }

    fn reals(mut self, reals: &[f64]) -> Self {
        self.reals = reals.to_vec();
        self
    }

    /// The outputs, and the error that the status word stands for.
    fn on(&self, kernel: &'static Kernel, backend: &dyn Backend, pool: &dyn Pool) -> Result<Outcome> {
        let copy = |(name, array): (&&'static str, &Array)| (*name, array.try_clone().unwrap());
        let mut outputs: BTreeMap<_, _> = self.outputs.iter().map(copy).collect();
        let dims: Vec<usize> =
            kernel.dims.iter().map(|d| self.dims.get(d).copied().unwrap_or_else(|| panic!("{d}?"))).collect();
        let param = |name: &str| kernel.params.iter().position(|p| p.name == name).expect("a parameter");
        let inputs = self.inputs.iter().map(|(n, a)| ((param(n), Role::VALUE), Bound::Input(a.view())));
        let mut arrays: Vec<_> = inputs.collect();
        for (name, array) in &mut outputs {
            arrays.push(((param(name), Role::VALUE), Bound::Output { array, adds: false }));
        }
        let word = Word::default();
        let batches = self.batches.iter().map(|(n, b)| (param(n), b as &dyn Structure));
        let pairs = self.pairs.iter().map(|(n, l)| (param(n), l as &dyn Structure));
        let args = LaunchArgs {
            kernel,
            part: &kernel.forms[0].parts[0],
            dtype: self.dtype.unwrap_or(DType::F64),
            dims: &dims,
            arrays,
            structures: batches.chain(pairs).collect(),
            reals: self.reals.clone(),
            ints: self.ints.clone(),
            status: &word,
            word: None,
        };
        let mut launch = Launch::new(args, Place::Host)?;
        backend.launch(&madelung_cpu::context().with_pool(pool), &mut launch)?;
        let raised = launch.raised();
        drop(launch);
        Ok((outputs, raised))
    }

    /// The outcome on one thread, which is that on four and of the CUDA text with its threads in either order.
    fn everywhere(&self, kernel: &'static Kernel) -> Outcome {
        let first = self.on(kernel, &Cpu::new(), &Serial).expect("a launch");
        let threads = Threads::new(4);
        assert_equal(&self.on(kernel, &Cpu::new(), &threads).expect("a launch"), &first, "threads");
        let dtype = self.dtype.unwrap_or(DType::F64);
        for order in [Order::Forwards, Order::Backwards, Order::Shuffled(1)] {
            let host = Host::new(dtype, order);
            let found = self.on(kernel, &host, &Serial).expect("a launch");
            assert_equal(&found, &first, &format!("CUDA text {order:?}"));
        }
        first
    }

    /// [`Call::everywhere`] where nothing is wrong.
    fn outputs(&self, kernel: &'static Kernel) -> BTreeMap<&'static str, Array> {
        let (outputs, raised) = self.everywhere(kernel);
        assert_eq!(raised, None);
        outputs
    }

    /// The error of a run, the same everywhere.
    fn error(&self, kernel: &'static Kernel) -> String {
        self.everywhere(kernel).1.expect("an error").to_string()
    }
}

fn ints(a: &Array) -> Vec<i64> {
    match a {
        Array::I32(a) => a.iter().map(|x| i64::from(*x)).collect(),
        Array::I64(a) => a.iter().copied().collect(),
        a => panic!("{a:?}"),
    }
}

#[test]
fn they_have_one_form() {
    for kernel in kernels::all() {
        assert!(!kernel.is_differentiable() && kernel.forms.len() == 1, "{}", kernel.name);
        assert!(kernel.params.iter().all(|p| !matches!(p.kind, ParamKind::Real { zero: true, .. })));
    }
}
