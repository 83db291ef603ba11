//! Instructions that read arrays, by lanes.

use super::{Printer, Value};
use madelung_kernel::program::Instruction as I;
use madelung_kernel::program::Vector;

impl Printer {
    pub(super) fn of_arrays(&mut self, i: &I) {
        let n = self.lanes.n;
        match *i {
            I::LoadLanes { slot, first, stride, component, to } => {
                let (p, first) = (self.pointer(slot), self.first(first));
                let x = self.reals(&p, &first, stride, component);
                self.set_vector(to, &x);
            }
            I::LoadChannels { slot, first, to } => {
                let (p, first) = (self.pointer(slot), self.first(first));
                let x = self.reals(&p, &first, 1, 0);
                self.set_vector(to, &x);
            }
            I::LoadLanes3 { slot, to } => {
                let (p, k) = (self.pointer(slot), self.open.k.clone());
                let narrow = self.lanes.element() == self.real_type();
                let x = if narrow && n > 1 {
                    self.three_side_by_side(self.real_type(), &p, &k)
                } else {
                    [0, 1, 2].map(|component| self.reals(&p, &k, 3, component))
                };
                self.set_three(to, &x);
            }
            I::LoadInts { slot, stride, component, to } => {
                let (p, k) = (self.pointer(slot), self.open.k.clone());
                let at = self.strided(&k, stride, component);
                let x = self.ints_at(&p, &at);
                self.set_vector(to, &x);
            }
            I::LoadInts3 { slot, to } => {
                let p = self.pointer(slot);
                let x = self.triples(&p);
                self.set_three(to, &x);
            }
            I::Gather { slot, index, stride, offset, to } => {
                let (p, index) = (self.pointer(slot), self.indices(index));
                let (stride, offset) = (self.int(stride), self.int(offset));
                let at: Vec<Value> = index.iter().map(|i| self.element(i, &stride, &offset)).collect();
                let x = self.reals_at(&p, &at);
                self.set_vector(to, &x);
            }
            I::Gather3 { slot, index, to } => {
                let (p, index) = (self.pointer(slot), self.indices(index));
                let x = self.rows_of_three(&p, &index);
                self.set_three(to, &x);
            }
            I::GatherTable { slot, rows, width, columns, to } => {
                let (p, at) = (self.pointer(slot), self.table_places(rows, width, columns));
                let x = self.reals_at(&p, &at);
                self.set_vector(to, &x);
            }
            I::GatherInts { slot, index, stride, component, to } => {
                let (p, index) = (self.pointer(slot), self.indices(index));
                let (stride, component) = (stride.to_string(), component.to_string());
                let at: Vec<Value> = index.iter().map(|i| self.element(i, &stride, &component)).collect();
                let x = self.ints_at(&p, &at);
                self.set_vector(to, &x);
            }
            I::Iterations { to } => {
                let k = self.open.k.clone();
                let index = self.iterations(&k);
                self.set_indices(to, &index);
            }
            I::LoadIndices { slot, to } => {
                let (p, k) = (self.pointer(slot), self.open.k.clone());
                let at = self.iterations(&k);
                let index = self.indices_at(&p, &at);
                self.set_indices(to, &index);
            }
            I::Lookup { slot, index, to } => {
                let (p, at) = (self.pointer(slot), self.indices(index));
                let index = self.indices_at(&p, &at);
                self.set_indices(to, &index);
            }
            I::Shifts { triples, packed, entries, to } => {
                let (triples, packed) = (self.pointer(triples), self.pointer(packed));
                let entries = entries.map(|entries| self.indices(entries));
                let [of_triples, of_packed, end] = [(); 3].map(|()| self.new_label());
                let null = self.line(format_args!("icmp eq ptr {packed}, null"));
                self.branch(&null, &of_triples, &of_packed);
                self.begins(&of_triples);
                let x = match &entries {
                    None => self.triples(&triples),
                    Some(entries) => [0, 1, 2].map(|c| {
                        let at: Vec<Value> =
                            entries.iter().map(|e| self.element(e, "3", &c.to_string())).collect();
                        self.ints_at(&triples, &at)
                    }),
                };
                self.does(format_args!("br label %{end}"));
                self.begins(&of_packed);
                let words = match &entries {
                    None => {
                        let q = self.address("i32", &packed, &self.open.k.clone());
                        self.side_by_side("i32", &q)
                    }
                    Some(entries) => {
                        let words: Vec<Value> = entries.iter().map(|e| self.int_at(&packed, e)).collect();
                        self.collected("i32", &words)
                    }
                };
                let y = self.unpacked(&format!("<{n} x i32>"), &words).map(|y| self.ints_to_reals(&y));
                self.goes_on(&end);
                let ty = self.lanes.vector();
                let shifts = [0, 1, 2].map(|c| {
                    self.line(format_args!(
                        "phi {ty} [ {}, %{of_triples} ], [ {}, %{of_packed} ]",
                        x[c], y[c]
                    ))
                });
                self.set_three(to, &shifts);
            }
            I::Places { first, to } => {
                let (k, first) = (self.open.k.clone(), self.int(first));
                let place = self.line(format_args!("sub nsw i64 {k}, {first}"));
                let places: Vec<Value> = (0..n).map(|l| self.element(&place, "1", &l.to_string())).collect();
                let x = self.places(&places);
                self.set_vector(to, &x);
            }
            I::PlacesIn { starts, rows, entries, to } => {
                let (p, rows, entries) = (self.pointer(starts), self.indices(rows), self.indices(entries));
                let of = rows.iter().zip(&entries).map(|(row, entry)| {
                    let start = self.integer_at(&p, row, true);
                    self.line(format_args!("sub i64 {entry}, {start}"))
                });
                let places: Vec<Value> = of.collect();
                let x = self.places(&places);
                self.set_vector(to, &x);
            }
            I::LoadInClusters { slot, width, component, to } => {
                let q = self.in_cluster(slot, width, component);
                let x = self.side_by_side(self.lanes.element(), &q);
                self.set_vector(to, &x);
            }
            I::LoadIndicesInClusters { slot, width, component, to } => {
                let q = self.in_cluster(slot, width, component);
                let at: Vec<Value> = (0..n).map(|l| l.to_string()).collect();
                let index = self.indices_at(&q, &at);
                self.set_indices(to, &index);
            }
            ref other => unreachable!("not of arrays: {other:?}"),
        }
    }

    /// The address of a component of the open entry's cluster.
    pub(super) fn in_cluster(&mut self, slot: usize, width: usize, component: usize) -> Value {
        let cluster = self.open.entry.as_ref().expect("an entry of clusters is open").cluster.clone();
        let (p, n) = (self.pointer(slot), self.lanes.n);
        let at = self.element(&cluster, &(width * n).to_string(), &(component * n).to_string());
        self.address(self.lanes.element(), &p, &at)
    }

    fn set_three(&mut self, to: [Vector; 3], x: &[Value; 3]) {
        for (to, x) in to.into_iter().zip(x) {
            self.set_vector(to, x);
        }
    }

    /// The elements of each lane, in an array with rows of `width`.
    pub(super) fn table_places(
        &mut self,
        rows: madelung_kernel::program::Indices,
        width: madelung_kernel::program::Integer,
        columns: madelung_kernel::program::Indices,
    ) -> Vec<Value> {
        let (rows, width, columns) = (self.indices(rows), self.int(width), self.indices(columns));
        rows.iter().zip(&columns).map(|(row, column)| self.element(row, &width, column)).collect()
    }

    /// Component `component` of elements `first` … that the open iterations have.
    pub(super) fn strided(&mut self, first: &str, stride: usize, component: usize) -> Vec<Value> {
        let (stride, component) = (stride.to_string(), component.to_string());
        let at = self.iterations(first);
        at.iter().map(|at| self.element(at, &stride, &component)).collect()
    }

    /// Scalars as a vector.
    pub(super) fn collected(&mut self, element: &str, x: &[Value]) -> Value {
        let (mut all, ty) = ("poison".to_string(), format!("<{} x {element}>", self.lanes.n));
        for (l, x) in x.iter().enumerate() {
            all = self.line(format_args!("insertelement {ty} {all}, {element} {x}, i32 {l}"));
        }
        all
    }

    /// Elements side by side, from an address on: those of an incomplete vector, and zeros behind them.
    pub(super) fn side_by_side(&mut self, element: &str, q: &str) -> Value {
        let n = self.lanes.n;
        match self.open.rest.as_ref().map(|rest| rest.active.clone()) {
            None => self.line(format_args!("load <{n} x {element}>, ptr {q}, align {}", bytes(element))),
            Some(active) => self.masked(element, q, &active),
        }
    }

    /// The elements of a mask, zeros elsewhere.
    fn masked(&mut self, element: &str, q: &str, mask: &str) -> Value {
        let (n, suffix) = (self.lanes.n, suffix(element));
        let (ty, mask_type, align) =
            (format!("<{n} x {element}>"), self.mask_type(), bytes(element).to_string());
        let args = [("ptr", q), ("i32", &*align), (&*mask_type, mask), (&*ty, "zeroinitializer")];
        self.call(&ty, &format!("llvm.masked.load.v{n}{suffix}.p0"), &args)
    }

    /// Component `component` of elements `first` …, each of `stride` components, of an array of reals.
    fn reals(&mut self, p: &str, first: &str, stride: usize, component: usize) -> Value {
        if stride > 1 || self.lanes.n == 1 {
            let at = self.strided(first, stride, component);
            return self.reals_at(p, &at);
        }
        let at = self.element(first, "1", &component.to_string());
        let q = self.address(self.real_type(), p, &at);
        let x = self.side_by_side(self.real_type(), &q);
        self.on_lanes_of(&x)
    }

    /// Elements of an array of reals.
    fn reals_at(&mut self, p: &str, at: &[Value]) -> Value {
        let x: Vec<Value> = at.iter().map(|at| self.real_at(p, at)).collect();
        let x = self.collected(self.real_type(), &x);
        self.on_lanes_of(&x)
    }

    /// A vector of what arrays of reals hold, as lanes.
    pub(super) fn on_lanes_of(&mut self, x: &str) -> Value {
        let (from, to) = (format!("<{} x {}>", self.lanes.n, self.real_type()), self.lanes.vector());
        self.widened(x, &from, &to)
    }

    fn ints_at(&mut self, p: &str, at: &[Value]) -> Value {
        let x: Vec<Value> = at.iter().map(|at| self.int_at(p, at)).collect();
        let x = self.collected("i32", &x);
        self.ints_to_reals(&x)
    }

    fn ints_to_reals(&mut self, x: &str) -> Value {
        let (n, ty) = (self.lanes.n, self.lanes.vector());
        self.line(format_args!("sitofp <{n} x i32> {x} to {ty}"))
    }

    fn indices_at(&mut self, p: &str, at: &[Value]) -> Vec<Value> {
        let index = at.iter().map(|at| {
            let i = self.int_at(p, at);
            self.line(format_args!("zext i32 {i} to i64"))
        });
        index.collect()
    }

    /// Places as reals, rounded to the lanes' type.
    fn places(&mut self, places: &[Value]) -> Value {
        let (n, ty) = (self.lanes.n, self.lanes.vector());
        let x = self.collected("i64", places);
        let x = self.line(format_args!("sitofp <{n} x i64> {x} to <{n} x double>"));
        self.narrowed(&x, &format!("<{n} x double>"), &ty)
    }

    /// Triples of an i32 array, by component, as reals.
    fn triples(&mut self, p: &str) -> [Value; 3] {
        let k = self.open.k.clone();
        if self.lanes.n == 1 {
            return [0, 1, 2].map(|component| {
                let at = self.strided(&k, 3, component);
                self.ints_at(p, &at)
            });
        }
        self.three_side_by_side("i32", p, &k).map(|x| self.ints_to_reals(&x))
    }

    /// Rows of three that lie side by side, by component.
    fn three_side_by_side(&mut self, element: &str, p: &str, k: &str) -> [Value; 3] {
        let n = self.lanes.n;
        let first = self.element(k, "3", "0");
        let q = self.address(element, p, &first);
        let column = |c: usize| (0..n).map(|l| 3 * l + c).collect::<Vec<_>>();
        let Some(rest) = self.open.rest.as_ref().map(|rest| rest.n.clone()) else {
            let all =
                self.line(format_args!("load <{} x {element}>, ptr {q}, align {}", 3 * n, bytes(element)));
            return [0, 1, 2].map(|c| self.shuffled(element, 3 * n, [&all, "poison"], &column(c)));
        };
        let elements = self.line(format_args!("mul nsw i64 {rest}, 3"));
        let [a, b, c] = [0, n, 2 * n].map(|start| {
            let mask = self.before(&elements, start);
            // Behind the last element there may be no array.
            let q = self.line(format_args!("getelementptr {element}, ptr {q}, i64 {start}"));
            self.masked(element, &q, &mask)
        });
        let all: Vec<usize> = (0..2 * n).collect();
        let first = self.shuffled(element, n, [&a, &b], &all);
        let last = self.shuffled(element, n, [&c, "poison"], &all);
        [0, 1, 2].map(|c| self.shuffled(element, 2 * n, [&first, &last], &column(c)))
    }

    /// Elements of two vectors of `n`.
    fn shuffled(&mut self, element: &str, n: usize, [a, b]: [&str; 2], at: &[usize]) -> Value {
        let places: Vec<String> = at.iter().map(|l| format!("i32 {l}")).collect();
        let (ty, m) = (format!("<{n} x {element}>"), at.len());
        self.line(format_args!("shufflevector {ty} {a}, {ty} {b}, <{m} x i32> <{}>", places.join(", ")))
    }

    /// Rows of three anywhere, by component: each is loaded at once, without what lies behind it, and rows become columns
    /// by steps within the parts of 128 bits of registers, as on the lanes of `madelung-lanes`.
    fn rows_of_three(&mut self, p: &str, index: &[Value]) -> [Value; 3] {
        let (n, element) = (self.lanes.n, self.real_type());
        let suffix = suffix(element);
        let four = format!("<4 x {element}>");
        let rows: Vec<Value> = index
            .iter()
            .map(|i| {
                let at = self.element(i, "3", "0");
                let q = self.address(element, p, &at);
                let align = bytes(element).to_string();
                let mask = "<i1 true, i1 true, i1 true, i1 false>";
                let args = [("ptr", &*q), ("i32", &align), ("<4 x i1>", mask), (&four, "zeroinitializer")];
                self.call(&four, &format!("llvm.masked.load.v4{suffix}.p0"), &args)
            })
            .collect();
        // The rows of a register, and what a part of it takes from two of them.
        let step = n / 4;
        let parts = |width: usize, at: &[usize]| -> Vec<usize> {
            (0..n / width)
                .flat_map(|q| at.iter().map(move |l| l / width * n + q * width + l % width))
                .collect()
        };
        if self.single {
            let [a, b, c, d] = [0, 1, 2, 3].map(|r| {
                let of: Vec<&Value> = (0..step).map(|q| &rows[4 * q + r]).collect();
                self.joined(element, &of)
            });
            let mut both = |a: &str, b: &str, at: &[usize]| self.shuffled(element, n, [a, b], &parts(4, at));
            let (low, high) = ([0, 4, 1, 5], [2, 6, 3, 7]);
            let (xy_low, xy_high) = (both(&a, &b, &low), both(&c, &d, &low));
            let (z_low, z_high) = (both(&a, &b, &high), both(&c, &d, &high));
            let (first, second) = ([0, 1, 4, 5], [2, 3, 6, 7]);
            return [
                both(&xy_low, &xy_high, &first),
                both(&xy_low, &xy_high, &second),
                both(&z_low, &z_high, &first),
            ];
        }
        let [a, b, c, d] = [0, 1, 2 * step, 2 * step + 1].map(|r| {
            let of: Vec<&Value> = (0..step).map(|q| &rows[r + 2 * q]).collect();
            self.joined(element, &of)
        });
        let mut both = |a: &str, b: &str, at: &[usize]| self.shuffled(element, n, [a, b], at);
        let (low, high) = (parts(2, &[0, 2]), parts(2, &[1, 3]));
        let (xz_low, xz_high) = (both(&a, &b, &low), both(&c, &d, &low));
        let (y_low, y_high) = (both(&a, &b, &high), both(&c, &d, &high));
        let halves = |from: usize| -> Vec<usize> {
            (0..2 * step).flat_map(|q| [4 * q + from, 4 * q + from + 1]).collect()
        };
        [
            both(&xz_low, &xz_high, &halves(0)),
            both(&y_low, &y_high, &halves(0)),
            both(&xz_low, &xz_high, &halves(2)),
        ]
    }

    /// Vectors of four behind each other.
    fn joined(&mut self, element: &str, of: &[&Value]) -> Value {
        let (mut of, mut n): (Vec<Value>, usize) = (of.iter().map(|x| (*x).clone()).collect(), 4);
        while of.len() > 1 {
            let all: Vec<usize> = (0..2 * n).collect();
            of = of.chunks(2).map(|two| self.shuffled(element, n, [&two[0], &two[1]], &all)).collect();
            n *= 2;
        }
        of.swap_remove(0)
    }
}

/// The bytes of an element.
pub(super) fn bytes(element: &str) -> usize {
    if element == "double" { 8 } else { 4 }
}

/// The suffix of a type in names of intrinsics.
pub(super) fn suffix(element: &str) -> &'static str {
    match element {
        "double" => "f64",
        "float" => "f32",
        _ => "i32",
    }
}
