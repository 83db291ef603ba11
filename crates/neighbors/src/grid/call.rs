//! A kernel and its arguments, by name.

use madelung_core::Result;
use madelung_core::array::{Array, DType};
use madelung_core::backend::status::Word;
use madelung_core::backend::{Bound, Context, Launch, LaunchArgs};
use madelung_core::runtime::{Kernel, ParamKind, Role};
use madelung_core::structure::{Batch, Structure};

pub(super) struct Call<'a> {
    kernel: &'static Kernel,
    dims: Vec<usize>,
    arrays: Vec<((usize, Role), Bound<'a>)>,
    structures: Vec<(usize, &'a dyn Structure)>,
    reals: Vec<f64>,
    ints: Vec<i64>,
}

impl<'a> Call<'a> {
    pub(super) fn new(kernel: &'static Kernel) -> Self {
        let dims = vec![0; kernel.dims.len()];
        Self { kernel, dims, arrays: vec![], structures: vec![], reals: vec![], ints: vec![] }
    }

    fn param(&self, name: &str) -> usize {
        self.kernel.params.iter().position(|p| p.name == name).expect("a parameter of the kernel")
    }

    /// The size of a dimension that no batch says.
    pub(super) fn dim(mut self, name: &str, size: usize) -> Self {
        let at = self.kernel.dims.iter().position(|d| *d == name).expect("a dimension of the kernel");
        self.dims[at] = size;
        self
    }

    pub(super) fn batch(mut self, name: &str, batch: &'a Batch<'a>) -> Self {
        let param = self.param(name);
        if let ParamKind::Batch { rows, systems } = self.kernel.params[param].kind {
            (self.dims[rows], self.dims[systems]) = (batch.atoms(), batch.systems());
        }
        self.structures.push((param, batch));
        self
    }

    pub(super) fn input(mut self, name: &str, array: &'a Array) -> Self {
        self.arrays.push(((self.param(name), Role::VALUE), Bound::Input(array.view())));
        self
    }

    pub(super) fn output(mut self, name: &str, array: &'a mut Array) -> Self {
        self.arrays.push(((self.param(name), Role::VALUE), Bound::Output { array, adds: false }));
        self
    }

    pub(super) fn real(mut self, x: f64) -> Self {
        self.reals.push(x);
        self
    }

    pub(super) fn int(mut self, x: i64) -> Self {
        self.ints.push(x);
        self
    }

    /// Runs the call.
    ///
    /// # Errors
    /// An argument that does not fit, or the reason in the status word.
    pub(super) fn run(self, context: &Context<'_>) -> Result<()> {
        let word = Word::default();
        let args = LaunchArgs {
            kernel: self.kernel,
            part: &self.kernel.forms[0].parts[0],
            dtype: DType::F64,
            dims: &self.dims,
            arrays: self.arrays,
            structures: self.structures,
            reals: self.reals,
            ints: self.ints,
            status: &word,
            word: None,
        };
        let mut launch = Launch::new(args, context.backend.place())?;
        context.backend.launch(context, &mut launch)?;
        launch.raised().map_or(Ok(()), Err)
    }
}
