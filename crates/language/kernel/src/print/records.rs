//! Records of the partners' data that rows gather, one per partner: in CUDA a few wide loads replace a load per number,
//! each of which would touch as many lines of memory as a warp has partners.

use crate::ir::{Body, Dim, Kernel, Op, ParamId, Role, Type, Val};
use crate::layout::{Array, Layout, Slot};
use rustc_hash::FxHashSet as HashSet;
use std::collections::{BTreeMap, BTreeSet};

/// Pointers that a launch has room for: one of them is that of the records.
const POINTERS: usize = 64;

/// A component of a real array.
type Component = (ParamId, Role, usize);

/// The records of a part.
#[derive(Clone, Debug)]
pub struct Records {
    /// The dimension of the partners.
    pub dim: Dim,
    /// The components in a record, in order.
    fields: Vec<Component>,
    /// The partners whose records are read.
    partners: HashSet<Val>,
}

impl Records {
    /// Reads a part. One number alone is gathered as it stands; of several dimensions, the one with the most numbers has
    /// records.
    pub fn new(kernel: &Kernel, b: &Body, layout: &Layout) -> Option<Self> {
        let mut found: BTreeMap<Dim, (BTreeSet<Component>, HashSet<Val>)> = BTreeMap::new();
        for op in b.ops() {
            if let Op::Load { param, role, row: Some(row), component, channel: None } = *op
                && matches!(b.op(row), Op::PairColumn(_) | Op::PairRow(_))
                && let Type::Index(dim) = b.ty(row)
                && !kernel.is_ints(param, role)
                && !layout.written.contains(&Slot::new(param, Array::Values(role)))
            {
                let (fields, partners) = found.entry(dim).or_default();
                fields.insert((param, role, component));
                partners.insert(row);
            }
        }
        let (dim, (fields, partners)) = found.into_iter().max_by_key(|(_, (fields, _))| fields.len())?;
        let pays = fields.len() > 1 && layout.slots.len() < POINTERS;
        pays.then(|| Self { dim, fields: fields.into_iter().collect(), partners })
    }

    /// The numbers of a record: whole loads of four.
    pub fn width(&self) -> usize {
        self.fields.len().next_multiple_of(4)
    }

    /// The type of a record.
    pub(crate) fn ty(&self) -> String {
        format!("Record<REAL, {}>", self.width())
    }

    /// Whether a partner's record is read.
    pub(crate) fn has(&self, partner: Val) -> bool {
        self.partners.contains(&partner)
    }

    /// The position of a component in the record of a partner.
    pub(crate) fn position(&self, partner: Val, component: Component) -> Option<usize> {
        if !self.has(partner) {
            return None;
        }
        self.fields.binary_search(&component).ok()
    }

    /// The function that makes them.
    pub(crate) fn function(&self, kernel: &Kernel, layout: &Layout, name: &str) -> String {
        let numbers: Vec<String> = self
            .fields
            .iter()
            .map(|(param, role, component)| {
                let slot = layout.slot(*param, Array::Values(*role));
                let at = match kernel.components(*param, *role) {
                    1 => "i".into(),
                    components => format!("{components} * i + {component}"),
                };
                format!("REAL(((const T{slot}*)a.pointers[{slot}])[{at}])")
            })
            .collect();
        let (ty, slot, numbers) = (self.ty(), layout.slots.len(), numbers.join(", "));
        format!(
            "extern \"C\" __global__ void {name}_records(const Launch a) {{\nconst long long i = (long long)blockIdx.x * \
             blockDim.x + threadIdx.x;\nif (i >= a.dims[{}]) return;\nconst {ty} r = \
             {{{{{numbers}}}}};\n(({ty}*)a.pointers[{slot}])[i] = r;\n}}\n",
            self.dim
        )
    }
}
