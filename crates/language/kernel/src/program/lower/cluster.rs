//! Cluster forms: the sums of clusters of columns, and the rows whose sums these are.

use super::super::{Address, Combine, Instruction as I, Integer, Program, Scalar, Term, Vector};
use super::phase::{Addition, Joined, Phase, layout_of_rows};
use super::{Lanes, Lowering, OnLanes, Single, at, outside_values};
use crate::cluster::Clusters;
use crate::ir::{Kernel, Op, Val};
use crate::layout::Layout;
use madelung_abi::{ClusterArray, RunField};
use rustc_hash::FxHashMap as HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The run that is open.
pub(super) struct Run<'a> {
    clusters: &'a Clusters,
    /// Slots of the part, ahead of the arrays of clusters.
    slots: usize,
    run: Integer,
    /// The atom's cluster, and its lane there.
    cluster: Integer,
    lane: Integer,
}

/// The program of a form's first phase, given the layout of the part that the form is of.
pub fn lower_clusters(kernel: &Kernel, clusters: &Clusters, of_part: &Layout) -> Program {
    let phase = Phase::new(kernel, clusters, of_part);
    let mut l = Lowering::new(kernel, &clusters.pair.body, &phase.layout);
    let ([from, to], variable) = (l.program.rows, l.new_integer());
    l.begin();
    l.cluster_run(clusters, &phase, variable);
    let body = l.end();
    l.emit(I::For { variable, from, end: to, body });
    l.done()
}

/// The program of a form's second phase: the part, with the sums of its loop given.
pub fn lower_rows(kernel: &Kernel, clusters: &Clusters, of_part: &Layout) -> Program {
    let layout = layout_of_rows(kernel, clusters, of_part);
    let mut l = Lowering::new(kernel, &clusters.part.body, &layout);
    l.given = Some(clusters);
    l.row_by_row()
}

impl<'a> Lowering<'a> {
    /// Adds the sums that are given, behind the last slot, to those of the row's loop.
    pub(super) fn given_sums(&mut self, clusters: &Clusters) {
        let slot = self.layout.slots.len();
        for (component, sum) in clusters.sums.iter().enumerate() {
            let (x, to) = (self.new_scalar(), self.sums[&sum.of_part]);
            let at = Address { row: Some(self.row), stride: clusters.sums.len(), component };
            self.emit(I::LoadDouble { slot, at, to: x });
            let factor = self.constant(sum.factor);
            let x = self.combine(Combine::Mul, factor, x);
            self.emit(I::Combine { op: Combine::Add, x: to, y: x, to });
        }
    }

    fn cluster_run(&mut self, clusters: &'a Clusters, phase: &Phase, run: Integer) {
        let slots = self.layout.slots.len();
        let mut number = |field: RunField| {
            let at = Address { row: Some(run), stride: RunField::COUNT, component: field as usize };
            let to = self.new_integer();
            self.emit(I::Entry { slot: ClusterArray::Runs.behind(slots), long: false, at, to });
            to
        };
        let [row, cluster, lane, start, end] =
            [RunField::Row, RunField::Cluster, RunField::Lane, RunField::Start, RunField::End]
                .map(&mut number);
        self.row = row;
        self.run = Some(Run { clusters, slots, run, cluster, lane });
        for v in &phase.of_run {
            self.let_whole(*v);
        }
        for v in outside_values(self.b, &phase.of_entry) {
            self.splat(v);
        }
        let known: HashMap<Val, Vector> =
            phase.joined.iter().map(|(v, j)| (*v, self.known_part(j))).collect();
        let zero = self.constant(0.0);
        for s in &clusters.sums {
            let to = self.sum_of(s.row);
            self.emit(I::Copy { from: zero, to });
        }
        let [begin, stop, entry] = [(); 3].map(|()| self.new_integer());
        self.begin();
        let sums = self.clear_sums(&clusters.sums.iter().map(|s| s.row).collect());
        let mut lanes = Lanes::new(clusters.loop_id, BTreeSet::new());
        (lanes.varying, lanes.sums) = (phase.varying.clone(), sums.clone());
        self.lanes = Some(lanes);
        self.begin();
        self.cluster_entry(clusters, phase, &known);
        let body = self.end();
        self.lanes = None;
        let entries = Some(ClusterArray::Entries.behind(slots));
        self.emit(I::Lanes { variable: entry, from: begin, end: stop, single: false, entries, body });
        self.add_totals(&sums);
        let body = self.end();
        self.emit(I::Segments { begin, stop, from: start, end, entries: true, body });
        let width = clusters.sums.len();
        for (component, s) in clusters.sums.iter().enumerate() {
            let row = self.in_cluster(width, component);
            let (slot, x) = (ClusterArray::Sums.behind(slots), self.sums[&s.row]);
            self.emit(I::Add { slot, at: at(row), x });
        }
        self.run = None;
    }

    /// The part of joined differences that is known outside, on lanes.
    fn known_part(&mut self, j: &Joined) -> Vector {
        let (x, y) = (self.scalar(j.first), self.scalar(j.second));
        let op = if j.sign == '-' { Combine::Sub } else { Combine::Add };
        let (x, to) = (self.combine(op, x, y), self.new_one());
        self.emit(I::Splat { x, to });
        to
    }

    fn cluster_entry(&mut self, clusters: &Clusters, phase: &Phase, known: &HashMap<Val, Vector>) {
        self.paired.push(HashMap::default());
        for v in phase.values() {
            let x = match phase.joined.get(&v) {
                Some(j) => {
                    let (x, y, to) = (self.real(j.varying), known[&v], self.new_vector());
                    let [x, y] = if j.from_it { [x, y] } else { [y, x] };
                    self.emit(I::CombineLanes { op: Combine::Sub, x, y, to });
                    Some(OnLanes::Real(to))
                }
                None => self.lane_value(v, &self.b.op(v).clone()),
            };
            self.on_lanes.extend(x.map(|x| (v, x)));
        }
        let slot = ClusterArray::Columns.behind(self.layout.slots.len());
        let width = clusters.sums.len();
        let mut of_columns: BTreeMap<usize, Vec<Term>> = BTreeMap::new();
        for Addition { sum, place: component, to_column, value } in phase.additions(clusters) {
            // What a run knows is there as it was written.
            let (value, sign) =
                if self.varies(value) { self.layout.signed(self.b, value) } else { (value, '+') };
            if !to_column {
                self.accumulate_signed(sum, value, sign);
                continue;
            }
            let (x, y) = match self.is_fused(value) {
                Some((x, y)) => (self.real(x), Some(self.real(y))),
                None => (self.real(value), None),
            };
            of_columns.entry(component).or_default().push(Term { x, y, minus: sign == '-' });
        }
        for (component, terms) in of_columns {
            self.emit(I::AddInClusters { slot, width, component, terms: terms.into() });
        }
        self.paired.pop();
    }

    /// The element of the open run's atom in an array over clusters.
    fn in_cluster(&mut self, width: usize, component: usize) -> Integer {
        let run = self.run.as_ref().expect("within a run");
        let (cluster, lane, to) = (run.cluster, run.lane, self.new_integer());
        self.emit(I::InCluster { cluster, lane, width, component, to });
        to
    }

    /// A value of a run's atom that lies packed in clusters, or a component of its image.
    pub(super) fn of_run(&mut self, v: Val) -> Option<Single> {
        let Run { clusters, slots, run, .. } = *self.run.as_ref()?;
        if let Op::PairShift(_, c) = *self.b.op(v) {
            let component = RunField::Shift as usize + c;
            let at = Address { row: Some(run), stride: RunField::COUNT, component };
            let to = self.new_scalar();
            self.emit(I::LoadInt { slot: ClusterArray::Runs.behind(slots), at, to });
            return Some(Single::Real(to));
        }
        let component = clusters.packed_component(self.b, v)?;
        let row = self.in_cluster(clusters.packed.len(), component);
        let to: Scalar = self.new_scalar();
        self.emit(I::Load { slot: ClusterArray::Packed.behind(slots), at: at(row), to });
        Some(Single::Real(to))
    }

    /// A value of columns that lies packed in clusters.
    pub(super) fn of_columns(&mut self, v: Val) -> Option<OnLanes> {
        let Run { clusters, slots, .. } = *self.run.as_ref()?;
        let (slot, width) = (ClusterArray::Packed.behind(slots), clusters.packed.len());
        if let Some(component) = clusters.packed_component(self.b, v) {
            let to = self.new_vector();
            self.emit(I::LoadInClusters { slot, width, component, to });
            return Some(OnLanes::Real(to));
        }
        let component = clusters.packed_element(self.b, v)?;
        let to = self.new_indices();
        self.emit(I::LoadIndicesInClusters { slot, width, component, to });
        Some(OnLanes::Index(to))
    }
}
