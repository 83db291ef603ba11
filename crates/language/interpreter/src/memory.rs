//! Instructions that read and write arrays, and those on meshes.

use super::machine::Machine;
use super::world::World;
use madelung_kernel::program::Atomic;
use madelung_kernel::program::{Field, Instruction as I, Memory};
use madelung_lanes::{self as rt, Lane};

/// An expression for each vector that is open, from its first iteration and the number of these: behind the last one of an
/// incomplete vector nothing is read.
macro_rules! vectors {
    ($m:ident, $to:expr; $k:ident, $n:ident, $v:ident; $e:expr) => {{
        let to = $m.vector($to);
        let last = $m.open.vectors - 1;
        for $v in 0..=last {
            let ($k, $n) = ($v * W::L::N, if $v < last { W::L::N } else { $m.open.rest });
            *to.0.add($v * to.1) = $e;
        }
    }};
    (three $m:ident, $to:expr; $k:ident, $n:ident, $v:ident; $e:expr) => {{
        let to = $to.map(|to| $m.vector(to));
        let last = $m.open.vectors - 1;
        for $v in 0..=last {
            let ($k, $n) = ($v * W::L::N, if $v < last { W::L::N } else { $m.open.rest });
            let [x, y, z] = $e;
            *to[0].0.add($v * to[0].1) = x;
            *to[1].0.add($v * to[1].1) = y;
            *to[2].0.add($v * to[2].1) = z;
        }
    }};
    (from $m:ident, $x:expr; $k:ident, $n:ident, $v:ident, $of:ident; $e:expr) => {{
        let x = $m.vector($x);
        let last = $m.open.vectors - 1;
        for $v in 0..=last {
            let ($k, $n) = ($v * W::L::N, if $v < last { W::L::N } else { $m.open.rest });
            let $of = *x.0.add($v * x.1);
            $e
        }
    }};
}

impl<W: World> Machine<'_, W> {
    /// An instruction on single elements.
    ///
    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    pub(super) unsafe fn of_elements(&mut self, i: &I) {
        // SAFETY: the program is of the launch's part, whose arrays the backend has checked.
        unsafe {
            match *i {
                I::IsAsked { ref slots, to } => {
                    *self.condition(to) = slots.iter().any(|slot| !self.a.pointers[*slot].is_null());
                }
                I::LoadDouble { slot, ref at, to } => {
                    *self.scalar(to) = *self.pointer::<f64>(slot).add(self.place(at));
                }
                I::Load { slot, ref at, to } => {
                    *self.scalar(to) = rt::get(self.pointer::<W::E>(slot), self.place(at));
                }
                I::LoadInt { slot, ref at, to } => {
                    *self.scalar(to) = f64::from(*self.pointer::<i32>(slot).add(self.place(at)));
                }
                I::Entry { slot, long, ref at, to } => {
                    let at = self.place(at);
                    *self.int(to) = if long {
                        *self.pointer::<i64>(slot).add(at)
                    } else {
                        i64::from(*self.pointer::<i32>(slot).add(at))
                    };
                }
                I::Shift { triples, packed, entry, component, to } => {
                    let (triples, packed) = (self.pointer(triples), self.pointer(packed));
                    let shift = rt::shift(triples, packed, *self.int(entry) as usize, component);
                    *self.scalar(to) = f64::from(shift);
                }
                I::Put { slot, ref at, x, adds } => {
                    let adds = adds || self.a.adds(slot);
                    rt::put(self.pointer::<W::E>(slot), self.place(at), *self.scalar(x), adds);
                }
                I::Add { slot, ref at, x } => {
                    rt::add(self.pointer(slot), self.place(at), *self.scalar(x));
                }
                I::ClearChannels { slot, dim } => {
                    let n = (self.a.dims[dim] as usize).next_multiple_of(W::L::N);
                    rt::clear(self.pointer::<W::E>(slot), n);
                }
                I::Partial { n, x } => *self.partials.add(n) += *self.scalar(x),
                I::SharedLoad { slot, ref at, to } => {
                    let at = self.place(at);
                    *self.scalar(to) = rt::load(self.pointer::<W::E>(slot).add(at));
                }
                I::SharedStore { slot, ref at, x } => {
                    let at = self.place(at);
                    rt::store(self.pointer::<W::E>(slot).add(at), *self.scalar(x));
                }
                I::SharedLoadInt { slot, memory, shared, ref at, to } => {
                    let at = self.place(at);
                    *self.int(to) = match (memory, shared) {
                        (Memory::Int64, true) => rt::load_int(self.pointer::<i64>(slot).add(at)),
                        (Memory::Int64, false) => *self.pointer::<i64>(slot).add(at),
                        (_, true) => rt::load_int(self.pointer::<i32>(slot).add(at)),
                        (_, false) => i64::from(*self.pointer::<i32>(slot).add(at)),
                    };
                }
                I::SharedStoreInt { slot, memory, ref at, x, param } => {
                    let (at, x) = (self.place(at), *self.int(x));
                    match memory {
                        Memory::Int64 => rt::store_int(self.a, self.pointer::<i64>(slot).add(at), x, param),
                        Memory::Int32 | Memory::Real => {
                            rt::store_int(self.a, self.pointer::<i32>(slot).add(at), x, param);
                        }
                    }
                }
                I::Atomic { op, slot, memory, ref at, x, param, to } => {
                    let (at, x) = (self.place(at), *self.int(x));
                    macro_rules! atomic {
                        ($T:ty) => {{
                            let p = self.pointer::<$T>(slot).add(at);
                            match op {
                                Atomic::Add => rt::atomic_add(self.a, p, x, param),
                                Atomic::Max => rt::atomic_max(self.a, p, x, param),
                                Atomic::Min => rt::atomic_min(self.a, p, x, param),
                            }
                        }};
                    }
                    *self.int(to) = if memory == Memory::Int64 { atomic!(i64) } else { atomic!(i32) };
                }
                I::Raise { reason, param } => rt::raise(self.a, reason, param),
                ref other => unreachable!("not of elements: {other:?}"),
            }
        }
    }

    /// An instruction on meshes.
    ///
    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    pub(super) unsafe fn of_meshes(&mut self, i: &I) {
        // SAFETY: the program is of the launch's part, whose arrays the backend has checked; registers have room for all
        // vectors that are open, and lanes name elements that are there.
        unsafe {
            match *i {
                I::Mesh { slot, system, to } => {
                    *self.shape(to) = rt::mesh_of(self.pointer(slot), *self.int(system) as usize);
                }
                I::WaveSystem { slot, wave, to } => {
                    *self.int(to) = rt::wave_system(self.pointer(slot), *self.int(wave) as usize) as i64;
                }
                I::ShapeNumber { shape, n, to } => *self.int(to) = self.shape(shape)[n] as i64,
                I::Splines { shape, axis, orders: _, at, to } => {
                    let (shape, at) = (*self.shape(shape), *self.scalar(at));
                    *self.table(to) = rt::Splines::new::<<W::L as Lane>::Rows>(&shape, axis, at);
                }
                I::Weight { table, derivative, node, to } => {
                    let node = *self.int(node);
                    *self.scalar(to) = self.table(table).weight(derivative, node);
                }
                I::Node { shape, tables, to } => {
                    let index = tables.map(|table| {
                        table.map_or(0, |(table, node)| {
                            let node = *self.int(node);
                            self.table(table).index(node)
                        })
                    });
                    *self.int(to) = rt::mesh_node(self.shape(shape), index) as i64;
                }
                I::InPlanes { shape, table, node, to } => {
                    let node = *self.int(node);
                    let index = self.table(table).index(node);
                    *self.condition(to) = rt::in_planes(self.shape(shape), index);
                }
                I::Reaches { shape, at, to } => {
                    let at = *self.scalar(at);
                    *self.condition(to) = rt::reaches(self.shape(shape), at);
                }
                I::Wave { field, shape, wave, to } => {
                    let (shape, wave) = (*self.shape(shape), *self.int(wave) as usize);
                    *self.scalar(to) = match field {
                        Field::Index(axis) => rt::wave_index(&shape, wave, axis),
                        Field::Count => rt::wave_count(&shape, wave),
                        Field::Modulus(slot) => rt::wave_modulus(&shape, self.pointer(slot), wave),
                    };
                }
                I::LineIndex { axis, to } => *self.scalar(to) = self.wave_line.index(axis),
                I::Weights { table, derivative, to } => {
                    let (table, first) = (*self.table(table), self.open.k);
                    vectors!(self, to; k, _n, v; W::weights(&table, derivative, first + k));
                }
                I::NodeLoad { slot, line, along, stride, component, to } => {
                    let (p, first) = (self.pointer::<W::E>(slot), self.open.k);
                    let (line, along) = (*self.int(line) as usize, *self.table(along));
                    vectors!(self, to; k, n, v; {
                        W::node_load(p, (line, &along), (first + k, n), (stride, component))
                    });
                }
                I::NodeAdd { slot, line, along, stride, component, x } => {
                    let (p, first) = (self.pointer::<f64>(slot), self.open.k);
                    let (line, along) = (*self.int(line) as usize, *self.table(along));
                    vectors!(from self, x; k, n, v, x; {
                        W::node_add(p, (line, &along), (first + k, n), (stride, component), x);
                    });
                }
                I::LineField { field, to } => {
                    let (line, first) = (self.wave_line, self.open.k);
                    let moduli = match field {
                        Field::Modulus(slot) => self.pointer(slot),
                        Field::Index(_) | Field::Count => std::ptr::null_mut(),
                    };
                    vectors!(self, to; k, n, v; W::wave(&line, field, moduli, first + k, n));
                }
                ref other => unreachable!("not of meshes: {other:?}"),
            }
        }
    }

    /// An instruction on arrays, by lanes.
    ///
    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    pub(super) unsafe fn of_arrays(&mut self, i: &I) {
        // SAFETY: the program is of the launch's part, whose arrays the backend has checked; registers have room for all
        // vectors that are open, and lanes name elements that are there.
        unsafe {
            match *i {
                I::LoadLanes { slot, first, stride, component, to } => {
                    let (p, first) = (self.pointer::<W::E>(slot), self.first(first));
                    vectors!(self, to; k, n, v; W::load(p, first + k, n, stride, component));
                }
                I::LoadLanes3 { slot, to } => {
                    let (p, first) = (self.pointer::<W::E>(slot), self.open.k);
                    vectors!(three self, to; k, n, v; W::load3(p, first + k, n));
                }
                I::LoadInts { slot, stride, component, to } => {
                    let p = self.pointer::<i32>(slot).add(stride * self.open.k);
                    vectors!(self, to; k, n, v; {
                        W::L::int_gather(p.add(stride * k), rt::consecutive::<W::L>(n), stride, component)
                    });
                }
                I::Gather { slot, index, stride, offset, to } => {
                    let (p, index) = (self.pointer::<W::E>(slot), self.index(index));
                    let (stride, offset) = (*self.int(stride) as usize, *self.int(offset) as usize);
                    vectors!(self, to; _k, _n, v; W::gather(p, *index.add(v), stride, offset));
                }
                I::GatherInts { slot, index, stride, component, to } => {
                    let (p, index) = (self.pointer::<i32>(slot), self.index(index));
                    vectors!(self, to; _k, _n, v; W::L::int_gather(p, *index.add(v), stride, component));
                }
                I::Iterations { to } => {
                    let (first, to) = (self.open.k, self.index(to));
                    let last = self.open.vectors - 1;
                    for v in 0..=last {
                        let n = if v < last { W::L::N } else { self.open.rest };
                        *to.add(v) = rt::iterations::<W::L>(first + v * W::L::N, n);
                    }
                }
                I::LoadIndices { slot, to } => {
                    let (p, to) = (self.pointer::<i32>(slot).add(self.open.k), self.index(to));
                    let last = self.open.vectors - 1;
                    for v in 0..=last {
                        let p = p.add(v * W::L::N);
                        *to.add(v) = if v < last || self.open.rest == W::L::N {
                            W::L::index(p)
                        } else {
                            W::L::index_first(p, self.open.rest)
                        };
                    }
                }
                I::StoreLanes { slot, first, stride, component, x, adds } => {
                    let (first, adds) = (self.first(first), adds || self.a.adds(slot));
                    let p = self.pointer::<W::E>(slot);
                    vectors!(from self, x; k, n, v, x; W::put(p, (first + k, n), (stride, component), x, adds));
                }
                I::AddConsecutive { slot, first, stride, component, x } => {
                    let (p, first) = (self.pointer::<f64>(slot), self.first(first));
                    vectors!(from self, x; k, n, v, x; {
                        rt::scatter_lanes::<W::L>(p, first + k, stride, component, x, n);
                    });
                }
                I::Scatter { slot, index, stride, offset, x } => {
                    let (p, index) = (self.pointer::<f64>(slot), self.index(index));
                    let (stride, offset) = (*self.int(stride) as usize, *self.int(offset) as usize);
                    vectors!(from self, x; _k, n, v, x; rt::scatter::<W::L>(p, *index.add(v), stride, offset, x, n));
                }
                ref other => unreachable!("not of arrays: {other:?}"),
            }
        }
    }

    /// An instruction on arrays, by lanes of their type, that rows and nodes on lanes do not have.
    ///
    /// # Safety
    /// As for a `Run` of the program's part.
    #[inline(always)]
    pub(super) unsafe fn of_pairs(&mut self, i: &I) {
        // SAFETY: the program is of the launch's part, whose arrays the backend has checked; registers have room for all
        // vectors that are open, and lanes name elements that are there.
        unsafe {
            match *i {
                I::LoadChannels { slot, first, to } => {
                    let p = self.pointer::<<W::L as Lane>::Elem>(slot).add(self.first(first));
                    vectors!(self, to; k, n, v; if n == W::L::N { W::L::load(p.add(k)) } else { W::L::load_some(p.add(k), n) });
                }
                I::LoadInts3 { slot, to } => {
                    let p = self.pointer::<i32>(slot).add(3 * self.open.k);
                    vectors!(three self, to; k, n, v; {
                        if n == W::L::N { W::L::int3(p.add(3 * k)) } else { W::L::int3_first(p.add(3 * k), n) }
                    });
                }
                I::Gather3 { slot, index, to } => {
                    let (p, index) = (self.pointer::<<W::L as Lane>::Elem>(slot), self.index(index));
                    vectors!(three self, to; _k, _n, v; W::L::gather3(p, *index.add(v)));
                }
                I::GatherTable { slot, rows, width, columns, to } => {
                    let (p, width) = (self.pointer::<<W::L as Lane>::Elem>(slot), *self.int(width) as usize);
                    let (rows, columns) = (self.index(rows), self.index(columns));
                    vectors!(self, to; _k, _n, v; {
                        rt::gather_table::<W::L>(p, *rows.add(v), width, *columns.add(v))
                    });
                }
                I::Lookup { slot, index, to } => {
                    let (p, index, to) = (self.pointer::<i32>(slot), self.index(index), self.index(to));
                    for v in 0..self.open.vectors {
                        *to.add(v) = rt::lookup::<W::L>(p, *index.add(v));
                    }
                }
                I::Shifts { triples, packed, entries: None, to } => {
                    let (triples, packed) = (self.pointer(triples), self.pointer(packed));
                    let first = self.open.k;
                    vectors!(three self, to; k, n, v; {
                        if n == W::L::N {
                            rt::shifts::<W::L>(triples, packed, first + k)
                        } else {
                            rt::shifts_first::<W::L>(triples, packed, first + k, n)
                        }
                    });
                }
                I::Shifts { triples, packed, entries: Some(entries), to } => {
                    let (triples, packed) = (self.pointer(triples), self.pointer(packed));
                    let entries = self.index(entries);
                    vectors!(three self, to; _k, _n, v; rt::shifts_at::<W::L>(triples, packed, *entries.add(v)));
                }
                I::Places { first, to } => {
                    let place = self.open.k - *self.int(first) as usize;
                    vectors!(self, to; k, _n, v; rt::places::<W::L>(place + k));
                }
                I::PlacesIn { starts, rows, entries, to } => {
                    let (p, rows, entries) = (self.pointer(starts), self.index(rows), self.index(entries));
                    vectors!(self, to; _k, _n, v; rt::places_in::<W::L>(p, *rows.add(v), *entries.add(v)));
                }
                I::LoadInClusters { slot, width, component, to } => {
                    let to = self.vector(to);
                    for v in 0..self.open.vectors {
                        *to.0.add(v * to.1) = W::L::load(self.in_cluster(slot, v, width, component));
                    }
                }
                I::LoadIndicesInClusters { slot, width, component, to } => {
                    let to = self.index(to);
                    for v in 0..self.open.vectors {
                        let at = self.in_cluster(slot, v, width, component);
                        *to.add(v) = W::L::index(at.cast::<i32>());
                    }
                }
                I::AddInClusters { slot, width, component, ref terms } => {
                    for v in 0..self.open.vectors {
                        let at = self.in_cluster(slot, v, width, component);
                        let before = W::L::load(at);
                        let mut after = before;
                        for term in terms {
                            let (x, y) = (self.vector(term.x), term.y.map(|y| self.vector(y)));
                            let x = *x.0.add(v * x.1);
                            after = match (y, term.minus) {
                                (None, false) => after + x,
                                (None, true) => after - x,
                                (Some(y), false) => x.mul_add(*y.0.add(v * y.1), after),
                                (Some(y), true) => (-x).mul_add(*y.0.add(v * y.1), after),
                            };
                        }
                        W::L::select(self.active(v), after, before).store(at);
                    }
                }
                I::AddChannels { slot, x, y } => {
                    let p = self.pointer::<<W::L as Lane>::Elem>(slot).add(self.open.k);
                    let y = y.map(|y| self.vector(y));
                    vectors!(from self, x; k, _n, v, x; {
                        let (at, before) = (p.add(k), W::L::load(p.add(k)));
                        let after = match y {
                            Some(y) => x.mul_add(*y.0.add(v * y.1), before),
                            None => before + x,
                        };
                        after.store(at);
                    });
                }
                I::ScatterTable { slot, rows, width, columns, x } => {
                    let (p, width) = (self.pointer::<f64>(slot), *self.int(width) as usize);
                    let (rows, columns) = (self.index(rows), self.index(columns));
                    vectors!(from self, x; _k, n, v, x; {
                        rt::scatter_table::<W::L>(p, *rows.add(v), width, *columns.add(v), x, n);
                    });
                }
                ref other => unreachable!("not of pairs: {other:?}"),
            }
        }
    }

    /// A component of the cluster of an open entry.
    ///
    /// # Safety
    /// The vector is open, and an entry of clusters.
    #[inline(always)]
    unsafe fn in_cluster(
        &self,
        slot: usize,
        v: usize,
        width: usize,
        component: usize,
    ) -> *mut <W::L as Lane>::Elem {
        // SAFETY: open vectors are entries of the list, which name clusters that there is room for.
        unsafe {
            let cluster = (*self.open.entries.add(self.open.k + v)).cluster as usize;
            self.pointer::<<W::L as Lane>::Elem>(slot).add((cluster * width + component) * W::L::N)
        }
    }
}
