//! Numbers for kernels: inputs by the names of their parameters, directions and cotangents, and finite differences.

use super::geometry::{ATOMS, CUTOFF, Geometry, List, MESHES, POINTS, WAVES, cells, half, members, rows};
use super::interpreter::{Arrays, World, components};
use super::sources::Random;
use madelung_kernel::ir::{Kernel, Kind, Role};

pub(crate) fn param(kernel: &Kernel, name: &str) -> usize {
    kernel.params.iter().position(|p| p.name == name).unwrap_or_else(|| panic!("no parameter {name}"))
}

pub(crate) fn inputs(kernel: &Kernel) -> Vec<usize> {
    (0..kernel.params.len()).filter(|p| matches!(kernel.params[*p].kind, Kind::Real { .. })).collect()
}

pub(crate) fn outputs(kernel: &Kernel) -> Vec<usize> {
    (0..kernel.params.len()).filter(|p| matches!(kernel.params[*p].kind, Kind::Output { .. })).collect()
}

pub(crate) fn size(kernel: &Kernel, world: &World, p: usize) -> usize {
    let (Kind::Real { dim, .. } | Kind::Output { dim, .. }) = kernel.params[p].kind else {
        panic!("not an array")
    };
    dim.map_or(1, |d| world.dims[d]) * components(kernel, &world.dims, p, Role::VALUE)
}

/// Two systems with random numbers in everything, and their full list of pairs with every image that counts.
pub(crate) fn world(kernel: &Kernel, seed: u64) -> World {
    let mut r = Random::new(seed);
    let mut w = World::default();
    let system_of = |d: &str| match d {
        "Atom" => members(&ATOMS),
        "Wave" => members(&WAVES),
        "Point" => members(&POINTS),
        d => panic!("no batch of {d}"),
    };
    let Geometry { positions, list, points, near } = Geometry::new(&mut r);
    let count = |list: &List| list.iter().map(Vec::len).sum::<usize>();
    let is_half = kernel.params.iter().any(|p| p.name == "half");
    w.dims = kernel
        .dims
        .iter()
        .map(|d| match d.as_str() {
            "Bond" if is_half => count(&half(&list)),
            "Bond" => count(&list),
            "Edge" => count(&near),
            d => rows(d),
        })
        .collect();
    for (p, one) in kernel.params.iter().enumerate() {
        let name = one.name.as_str();
        match one.kind {
            Kind::Real { zero: true, .. } => {
                w.arrays.insert((p, Role::VALUE), vec![0.0; size(kernel, &w, p)]);
            }
            Kind::Real { .. } => {
                let n = size(kernel, &w, p);
                let data = match name {
                    "positions" => positions.clone(),
                    "points" => points.clone(),
                    "cell" => cells().into_iter().flatten().flatten().collect(),
                    "a" | "b" | "alpha" => (0..n).map(|_| r.between(0.6, 1.7)).collect(),
                    _ => (0..n).map(|_| r.between(-1.2, 1.4)).collect(),
                };
                w.arrays.insert((p, Role::VALUE), data);
            }
            Kind::Ints { dim, components } => {
                let range = if name == "kinds" { (0.0, 2.99) } else { (-2.0, 2.99) };
                let n = w.dims[dim] * components;
                w.ints.insert(p, (0..n).map(|_| r.between(range.0, range.1).floor() as i32).collect());
            }
            Kind::Integers { .. } => unreachable!("kernels with derivatives have none"),
            Kind::Scalar => {
                w.reals.insert(p, if name == "cutoff" { CUTOFF } else { r.between(0.5, 1.5) });
            }
            Kind::IntScalar => {
                w.integers.insert(p, 3);
            }
            Kind::Batch { rows, .. } => {
                w.batches.insert(p, system_of(&kernel.dims[rows]));
            }
            Kind::Pairs { .. } => {
                let list = match name {
                    "near" => near.clone(),
                    // Each pair from one side only.
                    "half" => half(&list),
                    _ => list.clone(),
                };
                w.pairs.insert(p, list);
            }
            Kind::Map { rows, into } => {
                let range = w.dims[into] as f64 - 0.01;
                let of = (0..w.dims[rows]).map(|_| r.between(0.0, range) as usize).collect();
                w.maps.insert(p, of);
            }
            Kind::Mesh { .. } => {
                w.meshes.insert(p, MESHES.to_vec());
            }
            Kind::Output { .. } => {}
        }
    }
    w
}

/// The world with two directions of every input, and cotangents with a direction of their own.
pub(crate) fn directed(kernel: &Kernel, world: &World) -> World {
    let mut r = Random::new(99);
    let mut w = world.clone();
    let mut give = |p: usize, role: Role| {
        let data = (0..size(kernel, world, p)).map(|_| r.between(-1.0, 1.0)).collect();
        w.arrays.insert((p, role), data);
    };
    for p in inputs(kernel) {
        give(p, Role::FIRST);
        give(p, Role::SECOND);
    }
    for p in outputs(kernel) {
        give(p, Role::COTANGENT);
        give(p, Role::COTANGENT.with(Role::FIRST));
    }
    w
}

/// The world with inputs, and cotangents that have a direction, moved by `t` along it.
pub(crate) fn moved(world: &World, t: f64, along: Role) -> World {
    let mut moved = world.clone();
    for ((p, role), x) in &world.arrays {
        if role.has(along) {
            let base = Role(role.0 & !along.0);
            let to = moved.arrays.get_mut(&(*p, base)).expect("a direction has a base");
            to.iter_mut().zip(x).for_each(|(y, x)| *y += t * x);
        }
    }
    moved
}

/// An array of `n` numbers: zeros where nothing was written.
pub(crate) fn get(arrays: &Arrays, p: usize, role: Role, n: usize) -> Vec<f64> {
    arrays.get(&(p, role)).cloned().unwrap_or_else(|| vec![0.0; n])
}

/// The arrays of all outputs, one after the other.
pub(crate) fn of_outputs(kernel: &Kernel, world: &World, arrays: &Arrays, role: Role) -> Vec<f64> {
    let all = outputs(kernel).into_iter();
    all.flat_map(|p| get(arrays, p, role, size(kernel, world, p))).collect()
}

/// The derivative of `f` at 0, from four points.
pub(crate) fn difference(step: f64, f: &dyn Fn(f64) -> Vec<f64>) -> Vec<f64> {
    let [a, b, c, d] = [-2.0, -1.0, 1.0, 2.0].map(|k| f(k * step));
    (0..a.len()).map(|n| (a[n] - 8.0 * b[n] + 8.0 * c[n] - d[n]) / (12.0 * step)).collect()
}

/// The root mean square.
pub(crate) fn rms(x: &[f64]) -> f64 {
    (x.iter().map(|x| x * x).sum::<f64>() / x.len().max(1) as f64).sqrt()
}
