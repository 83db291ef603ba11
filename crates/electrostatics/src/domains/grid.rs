//! The mesh of several processes: windows, rows and planes, and what goes from one to the other.

use super::{Processes, Share};
use madelung_core::Result;
use madelung_core::array::{Array, DType, DataMut};
use madelung_core::backend::{Context, Meshes, Waves};
use madelung_core::structure::Window;
use std::ops::Range;

impl Share {
    /// The nodes that splines around the own atoms reach.
    pub(super) fn window(&self, mesh: [usize; 3], order: usize) -> Window {
        let mut window = Window { origin: [0; 3], extent: [order; 3] };
        for (axis, size) in mesh.into_iter().enumerate().filter(|_| self.atoms > 0) {
            let node = |x: f64| (x * size as f64).floor() as i64;
            let (first, last) = (node(self.low[axis]), node(self.low[axis] + self.width[axis]));
            let extent = (last - first) as usize + order;
            if extent < size {
                window.origin[axis] = (first + 1 - order as i64).rem_euclid(size as i64) as usize;
            }
            window.extent[axis] = extent.min(size);
        }
        window
    }
}

/// Shares of a number of things in order, one for each process.
fn shares(count: usize, ranks: usize) -> Vec<Range<usize>> {
    (0..ranks).map(|rank| count * rank / ranks..count * (rank + 1) / ranks).collect()
}

/// The mesh of all processes, and the places of its nodes and waves.
pub(super) struct Grid<'e> {
    processes: Processes<'e>,
    mesh: [usize; 3],
    /// Waves along the third axis.
    half: usize,
    windows: Vec<Window>,
    /// Shares of the second axis of nodes, and of the first one of waves.
    rows: Vec<Range<usize>>,
    planes: Vec<Range<usize>>,
}

impl<'e> Grid<'e> {
    pub(super) fn new(processes: Processes<'e>, mesh: [usize; 3], windows: Vec<Window>) -> Self {
        let of = |axis: usize| shares(mesh[axis], processes.ranks());
        Self { processes, mesh, half: mesh[2] / 2 + 1, windows, rows: of(1), planes: of(0) }
    }

    pub(super) fn planes(&self) -> Range<usize> {
        self.planes[self.processes.rank()].clone()
    }

    fn rows(&self) -> Range<usize> {
        self.rows[self.processes.rank()].clone()
    }

    /// Rows of the mesh that a window has in a share of them: the places of each in the window and in the share.
    fn common(&self, window: &Window, rows: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (first, size, rows) = (window.origin[1], self.mesh[1], rows.clone());
        (0..window.extent[1]).filter_map(move |j| {
            let row = (first + j) % size;
            rows.contains(&row).then(|| (j, row - rows.start))
        })
    }

    /// Numbers that a window and a share of the rows have in common.
    fn count(&self, window: &Window, rows: &Range<usize>) -> usize {
        self.common(window, rows).count() * window.extent[0] * window.extent[2]
    }

    /// The lines of nodes along the third axis that a window has in a share of the rows, in both: where each begins in the
    /// window, and its two pieces in the share, as pairs of a place there and one in the line.
    fn lines(
        &self,
        window: &Window,
        rows: &Range<usize>,
    ) -> impl Iterator<Item = (usize, [(usize, Range<usize>); 2])> + use<> {
        let ([k1, _, k3], [e1, e2, e3]) = (self.mesh, window.extent);
        let [o1, _, o3] = window.origin;
        let turn = e3.min(k3 - o3);
        self.common(window, rows).flat_map(move |(j, row)| {
            (0..e1).map(move |i| {
                let line = (row * k1 + (o1 + i) % k1) * k3;
                ((i * e2 + j) * e3, [(line + o3, 0..turn), (line, turn..e3)])
            })
        })
    }

    /// The waves of this process, (planes, K₂, K₃/2 + 1), from the nodes of its window: real and imaginary parts.
    pub(super) fn waves(&self, context: &Context<'_>, mut nodes: Array) -> Result<[Array; 2]> {
        let (nodes, own) = (numbers(&mut nodes), &self.windows[self.processes.rank()]);
        let mut send = Vec::with_capacity(nodes.len());
        for rows in &self.rows {
            let lines = self.lines(own, rows);
            lines.for_each(|(at, _)| send.extend_from_slice(&nodes[at..at + own.extent[2]]));
        }
        let sent: Vec<usize> = self.rows.iter().map(|rows| self.count(own, rows)).collect();
        let rows = self.rows();
        let received: Vec<usize> = self.windows.iter().map(|window| self.count(window, &rows)).collect();
        let all = self.processes.all_to_all(&send, &sent, &received)?;
        let mut slab = vec![0.0; rows.len() * self.mesh[0] * self.mesh[2]];
        let mut from = &all[..];
        for window in &self.windows {
            for (_, pieces) in self.lines(window, &rows) {
                let (line, rest) = from.split_at(window.extent[2]);
                from = rest;
                for (at, piece) in pieces {
                    let to = slab[at..][..piece.len()].iter_mut();
                    to.zip(&line[piece]).for_each(|(to, x)| *to += x);
                }
            }
        }
        let mut spectrum = self.planar(context, slab)?;
        let [re, im] = spectrum.each_mut().map(numbers);
        let [re, im] = self.turned(re, im)?;
        let sizes = [self.planes().len(), self.mesh[1], self.half];
        let [mut re, mut im] = [re.into(), im.into()];
        context.complex_fft(sizes, false, [&mut re, &mut im])?;
        Ok([re, im])
    }

    /// The nodes of this process' window from gradients by its waves: the transpose of [`Grid::waves`].
    pub(super) fn nodes(&self, context: &Context<'_>, [mut re, mut im]: [Array; 2]) -> Result<Array> {
        let sizes = [self.planes().len(), self.mesh[1], self.half];
        context.complex_fft(sizes, true, [&mut re, &mut im])?;
        let mut slab = self.planar_back(context, self.turned_back(numbers(&mut re), numbers(&mut im))?)?;
        let (slab, rows) = (numbers(&mut slab), self.rows());
        let mut send = vec![];
        for window in &self.windows {
            for (_, pieces) in self.lines(window, &rows) {
                pieces.into_iter().for_each(|(at, piece)| send.extend_from_slice(&slab[at..][..piece.len()]));
            }
        }
        let own = &self.windows[self.processes.rank()];
        let sent: Vec<usize> = self.windows.iter().map(|window| self.count(window, &rows)).collect();
        let received: Vec<usize> = self.rows.iter().map(|rows| self.count(own, rows)).collect();
        let all = self.processes.all_to_all(&send, &sent, &received)?;
        let mut nodes = vec![0.0; own.extent.iter().product()];
        let lines = self.rows.iter().flat_map(|rows| self.lines(own, rows));
        for ((at, _), line) in lines.zip(all.chunks_exact(own.extent[2])) {
            nodes[at..at + line.len()].copy_from_slice(line);
        }
        Ok(nodes.into())
    }

    /// Rows as pairs of two, which are transformed as meshes of two planes, and what is left.
    fn pairs(&self) -> [Meshes; 2] {
        let ([k1, _, k3], rows) = (self.mesh, self.rows().len());
        [Meshes { sizes: [2, k1, k3], systems: rows / 2 }, Meshes { sizes: [1, k1, k3], systems: rows % 2 }]
    }

    /// Half the sum and half the difference of the two rows of each pair: the transform along their first axis, and back.
    fn halves(&self, spectrum: [&mut [f64]; 2]) {
        let width = self.mesh[0] * self.half;
        for part in spectrum {
            for pair in part.chunks_exact_mut(2 * width) {
                let (first, second) = pair.split_at_mut(width);
                first.iter_mut().zip(second).for_each(|(a, b)| (*a, *b) = (0.5 * (*a + *b), 0.5 * (*a - *b)));
            }
        }
    }

    /// Transforms along the first and the third axis of own rows, (rows, K₁, K₃).
    fn planar(&self, context: &Context<'_>, slab: Vec<f64>) -> Result<[Array; 2]> {
        let waves = self.rows().len() * self.mesh[0] * self.half;
        let [mut re, mut im] = [(); 2].map(|()| Array::zeros(DType::F64, &[waves]));
        let slab: &[f64] = &slab;
        context.real_fft(&self.pairs(), Waves::Kept, &slab.into(), [&mut re, &mut im])?;
        self.halves([numbers(&mut re), numbers(&mut im)]);
        Ok([re, im])
    }

    /// The transpose of [`Grid::planar`].
    fn planar_back(&self, context: &Context<'_>, [mut re, mut im]: [Vec<f64>; 2]) -> Result<Array> {
        self.halves([&mut re, &mut im]);
        let mut slab = Array::zeros(DType::F64, &[self.rows().len() * self.mesh[0] * self.mesh[2]]);
        let (re, im): (&[f64], &[f64]) = (&re, &im);
        context.inverse_real_fft(&self.pairs(), Waves::Kept, [&re.into(), &im.into()], &mut slab)?;
        Ok(slab)
    }

    /// Own planes, (planes, K₂, half), in exchange for own rows, (rows, K₁, half).
    fn turned(&self, re: &[f64], im: &[f64]) -> Result<[Vec<f64>; 2]> {
        let (k1, k2, half) = (self.mesh[0], self.mesh[1], self.half);
        let (rows, planes) = (self.rows(), self.planes());
        let mut send = Vec::with_capacity(re.len() + im.len());
        for planes in &self.planes {
            for row in 0..rows.len() {
                for part in [re, im] {
                    send.extend_from_slice(&part[(row * k1 + planes.start) * half..][..planes.len() * half]);
                }
            }
        }
        let [sent, received] = self.turns();
        let all = self.processes.all_to_all(&send, &sent, &received)?;
        let mut parts = [(); 2].map(|()| vec![0.0; planes.len() * k2 * half]);
        let mut lines = all.chunks_exact(half);
        for row in 0..k2 {
            for part in &mut parts {
                for (plane, line) in (0..planes.len()).zip(&mut lines) {
                    part[(plane * k2 + row) * half..][..half].copy_from_slice(line);
                }
            }
        }
        Ok(parts)
    }

    /// The transpose of [`Grid::turned`], which is its inverse.
    fn turned_back(&self, re: &[f64], im: &[f64]) -> Result<[Vec<f64>; 2]> {
        let (k1, k2, half) = (self.mesh[0], self.mesh[1], self.half);
        let (rows, planes) = (self.rows(), self.planes());
        let mut send = Vec::with_capacity(re.len() + im.len());
        for row in 0..k2 {
            for part in [re, im] {
                for plane in 0..planes.len() {
                    send.extend_from_slice(&part[(plane * k2 + row) * half..][..half]);
                }
            }
        }
        let [received, sent] = self.turns();
        let all = self.processes.all_to_all(&send, &sent, &received)?;
        let mut parts = [(); 2].map(|()| vec![0.0; rows.len() * k1 * half]);
        let mut from = &all[..];
        for planes in &self.planes {
            for row in 0..rows.len() {
                for part in &mut parts {
                    let (lines, rest) = from.split_at(planes.len() * half);
                    from = rest;
                    part[(row * k1 + planes.start) * half..][..lines.len()].copy_from_slice(lines);
                }
            }
        }
        Ok(parts)
    }

    /// Numbers that rows send to the planes of each process, and that planes receive from the rows of each.
    fn turns(&self) -> [Vec<usize>; 2] {
        let (rows, planes) = (self.rows().len(), self.planes().len());
        let of = |count: usize, shares: &[Range<usize>]| {
            shares.iter().map(|share| 2 * count * share.len() * self.half).collect()
        };
        [of(rows, &self.planes), of(planes, &self.rows)]
    }
}

/// The numbers of an array of f64.
fn numbers(array: &mut Array) -> &mut [f64] {
    match array.data_mut() {
        Some(DataMut::F64(numbers)) => numbers,
        _ => unreachable!("arrays of f64 on the host"),
    }
}
