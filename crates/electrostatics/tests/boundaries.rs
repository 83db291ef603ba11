//! Sums that Rust runs by plans: crystals, slabs, wires and molecules of one batch, pairs that are left out, widths.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::numeric::assert_close_rms;
use common::systems::SplitMix64;
use madelung_core::array::Array;
use madelung_core::backend::pool::Serial;
use madelung_core::structure::{Batch, Neighbors, Structure};
use madelung_core::{Error, Result};
use madelung_electrostatics::kvectors::miller_indices_batch;
use madelung_electrostatics::plan::Method;
use madelung_electrostatics::{
    Energies, EwaldSettings, Options, PmeSettings, Reduction, System, ewald_summation, particle_mesh_ewald,
};
use std::f64::consts::PI;

/// Systems of random charges, with excluded pairs and their factors.
#[derive(Clone, Default)]
struct Systems {
    positions: Vec<[f64; 3]>,
    charges: Vec<f64>,
    cells: Vec<[[f64; 3]; 3]>,
    pbc: Vec<[bool; 3]>,
    of: Vec<i32>,
    pairs: Vec<[i32; 2]>,
    factors: Vec<f64>,
}

impl Systems {
    /// So many charges that add up to zero, in a box of 6 × 7 × 5; vectors along open axes are zero.
    fn random(seed: u64, natoms: usize, pbc: [bool; 3]) -> Self {
        let mut random = SplitMix64(seed);
        let positions: Vec<_> =
            (0..natoms).map(|_| [6.0, 7.0, 5.0].map(|l| random.uniform(0.0, l))).collect();
        let charges =
            (0..natoms).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 } * (1.0 + (i / 2) as f64 / 8.0)).collect();
        let mut cell = [[6.0, 0.0, 0.0], [0.5, 7.0, 0.0], [0.3, -0.4, 5.0]];
        for (row, is_periodic) in cell.iter_mut().zip(pbc) {
            if !is_periodic {
                *row = [0.0; 3];
            }
        }
        if pbc != [true; 3] {
            // Wires and slabs of cells at right angles.
            cell = std::array::from_fn(|k| std::array::from_fn(|c| if c == k { cell[k][c] } else { 0.0 }));
        }
        let of = vec![0; natoms];
        Self {
            positions,
            charges,
            cells: vec![cell],
            pbc: vec![pbc],
            of,
            pairs: vec![[0, 1], [2, 1], [0, 3]],
            factors: vec![0.0, 0.5, 1.0],
        }
    }

    /// A crystal, a slab, a wire and a molecule.
    fn all() -> [Self; 4] {
        let axes = [[true; 3], [true, true, false], [false, true, false], [false; 3]];
        std::array::from_fn(|b| Self::random(b as u64, 8 + 2 * b, axes[b]))
    }

    fn together(each: &[Self]) -> Self {
        let mut all = Self::default();
        for (b, s) in each.iter().enumerate() {
            let first = all.charges.len() as i32;
            all.positions.extend(&s.positions);
            all.charges.extend(&s.charges);
            all.cells.extend(&s.cells);
            all.pbc.extend(&s.pbc);
            all.of.extend(vec![b as i32; s.charges.len()]);
            all.pairs.extend(s.pairs.iter().map(|p| p.map(|i| i + first)));
            all.factors.extend(&s.factors);
        }
        all
    }

    /// Systems of the library.
    fn system(&self) -> Result<System<'_>> {
        let (positions, charges) = ((&self.positions[..]).into(), (&self.charges[..]).into());
        let batch = Batch::from_idx(&self.of[..], Some(self.cells.len()))?;
        System::with_boundaries(positions, charges, (&self.cells[..]).into(), &self.pbc, batch)
    }

    /// Without the excluded pairs, or with them.
    fn excluding(&self, excluding: bool) -> Result<System<'_>> {
        let system = self.system()?;
        if excluding { system.excluding(&self.pairs, &self.factors) } else { Ok(system) }
    }

    fn energy(&self, excluding: bool) -> f64 {
        let (context, settings) = (madelung_cpu::context(), EwaldSettings::accuracy(1e-10));
        let system = self.excluding(excluding).unwrap();
        let found = ewald_summation(&context, &system, &settings, None, &Options::default()).unwrap();
        found.energies.to_f64().unwrap().iter().sum()
    }
}

fn results(found: &Energies) -> [Vec<f64>; 4] {
    let of = |x: &Option<Array>| x.as_ref().expect("asked for").to_f64().unwrap();
    let energies = found.energies.to_f64().unwrap();
    [energies, of(&found.forces), of(&found.charge_gradients), of(&found.virial)]
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|c| (a[c] - b[c]).powi(2)).sum::<f64>().sqrt()
}

/// Each system of a batch has the results that it has alone, whichever sum and whatever is left out.
#[test]
fn systems_have_in_a_batch_what_they_have_alone() {
    let context = madelung_cpu::context();
    let each = Systems::all();
    let all = Systems::together(&each);
    for excluding in [false, true] {
        for energy_reduction in [Reduction::Atom, Reduction::System] {
            let options = Options { energy_reduction, ..Options::everything() };
            let sums: [&dyn Fn(&System<'_>) -> Energies; 3] = [
                &|s| ewald_summation(&context, s, &EwaldSettings::accuracy(1e-8), None, &options).unwrap(),
                &|s| {
                    let settings =
                        EwaldSettings { method: Some(Method::List), ..EwaldSettings::accuracy(1e-8) };
                    ewald_summation(&context, s, &settings, None, &options).unwrap()
                },
                &|s| particle_mesh_ewald(&context, s, &PmeSettings::accuracy(1e-8), None, &options).unwrap(),
            ];
            for sum in sums {
                let together = results(&sum(&all.excluding(excluding).unwrap()));
                let mut alone: [Vec<f64>; 4] = Default::default();
                for s in &each {
                    results(&sum(&s.excluding(excluding).unwrap()))
                        .into_iter()
                        .zip(&mut alone)
                        .for_each(|(x, a)| a.extend(x));
                }
                for (a, b) in together.iter().zip(&alone) {
                    assert_close_rms(a, b, 1e-13, 1.0);
                }
            }
        }
    }
}

/// Molecules: every pair, once.
#[test]
fn open_systems_are_sums_over_pairs() {
    let s = Systems::random(7, 12, [false; 3]);
    let (q, mut all) = (&s.charges, 0.0);
    for i in 0..q.len() {
        for j in 0..i {
            all += q[i] * q[j] / distance(s.positions[i], s.positions[j]);
        }
    }
    assert!((s.energy(false) - all).abs() < 1e-12 * all.abs());
}

/// A pair in the nearest image is left out, or scaled, of the sum of all.
#[test]
fn pairs_that_are_left_out_are_missing() {
    for mut s in Systems::all() {
        // Neighbours, so that the nearest image is the pair itself.
        s.positions[1] = s.positions[0].map(|x| x + 0.6);
        s.positions[2] = s.positions[1].map(|x| x - 0.4);
        s.positions[3] = s.positions[0].map(|x| x - 0.5);
        let less: f64 = s.pairs.iter().zip(&s.factors).fold(0.0, |sum, (pair, factor)| {
            let [i, j] = pair.map(|i| i as usize);
            sum + (1.0 - factor) * s.charges[i] * s.charges[j] / distance(s.positions[i], s.positions[j])
        });
        let (with, without) = (s.energy(false), s.energy(true));
        assert!((with - less - without).abs() < 1e-9 * less.abs(), "{:?}: {with} {less} {without}", s.pbc);
    }
}

/// A slab is the limit of crystals with ever more vacuum, their dipole's field taken away (Yeh and Berkowitz, J. Chem. Phys.
/// 111, 3155 (1999), eq. 10); what stands in its third vector does not count.
#[test]
fn slabs_are_layers_with_vacuum() {
    let slab = Systems::random(3, 10, [true, true, false]);
    let energy = slab.energy(false);
    let mut tall = slab.clone();
    tall.pbc = vec![[true; 3]];
    tall.cells[0][2] = [0.0, 0.0, 40.0];
    let dipole: f64 = tall.charges.iter().zip(&tall.positions).map(|(q, r)| q * r[2]).sum();
    let volume = tall.cells[0][0][0] * tall.cells[0][1][1] * 40.0;
    // Images along z are exp(−2π · 35 / 7) of what they would be side by side.
    let expected = tall.energy(false) + 2.0 * PI / volume * dipole * dipole;
    assert!((energy - expected).abs() < 1e-8 * expected.abs(), "{energy} {expected}");
    for third in [[0.0, 0.0, 5.0], [1.0, 2.0, 30.0], [0.0, 0.0, -1.0]] {
        let mut other = slab.clone();
        other.cells[0][2] = third;
        assert!((other.energy(false) - energy).abs() < 1e-12 * energy.abs(), "{third:?}");
    }
}

#[test]
fn a_batch_without_systems_has_no_energy() {
    let context = madelung_cpu::context();
    let none = Systems::default();
    let system = none.system().unwrap();
    let given = EwaldSettings { alpha: Some(vec![0.9]), cutoff: Some(vec![4.0]), ..EwaldSettings::default() };
    for energy_reduction in [Reduction::Atom, Reduction::System] {
        let options = Options { energy_reduction, ..Options::everything() };
        let of_mesh = particle_mesh_ewald(&context, &system, &PmeSettings::default(), None, &options);
        let of_waves = [EwaldSettings::default(), given.clone()]
            .map(|settings| ewald_summation(&context, &system, &settings, None, &options));
        for found in of_waves.into_iter().chain([of_mesh]) {
            assert!(results(&found.unwrap()).iter().all(Vec::is_empty));
        }
    }
}

/// Waves and a list that are given are those that a call makes, directly or not, in clusters or rows, without pairs or not.
#[test]
fn waves_and_lists_may_be_given() {
    let context = madelung_cpu::context();
    let mut form = [0; 2];
    for (natoms, cutoff) in [(12, 2.4), (700, 2.4)] {
        let crystal = Systems::random(9, natoms, [true; 3]);
        for excluding in [false, true] {
            let system = crystal.excluding(excluding).unwrap();
            let (waves, ptr) = miller_indices_batch(system.cells(), &[5.0]).unwrap();
            let within = EwaldSettings {
                alpha: Some(vec![1.1]),
                cutoff: Some(vec![cutoff]),
                k_cutoff: Some(vec![5.0]),
                ..EwaldSettings::default()
            };
            let of = vec![0; ptr[1] as usize];
            let given = EwaldSettings { k_cutoff: None, waves: Some((waves, of)), ..within.clone() };
            let pairs = system.neighbor_list(cutoff, &Serial).unwrap();
            form[usize::from(matches!(pairs, Neighbors::Clusters(_)))] += 1;
            let sum = |settings: &EwaldSettings, pairs: Option<&dyn Structure>| {
                results(&ewald_summation(&context, &system, settings, pairs, &Options::everything()).unwrap())
            };
            let expected = sum(&within, None);
            assert_eq!(sum(&given, Some(&pairs)), expected);
            if !excluding {
                let direct =
                    |of: &EwaldSettings| EwaldSettings { method: Some(Method::Direct), ..of.clone() };
                assert_eq!(sum(&direct(&given), None), sum(&direct(&within), None));
            }
        }
    }
    assert_eq!(form, [2, 2]);
}

#[test]
fn bad_input_is_named() {
    let context = madelung_cpu::context();
    let ewald = |s: &System<'_>, settings: EwaldSettings| {
        ewald_summation(&context, s, &settings, None, &Options::default()).map(|_| ())
    };
    let listed = |s: &System<'_>, cutoff: Option<f64>| {
        let settings = EwaldSettings {
            alpha: Some(vec![0.8]),
            cutoff: cutoff.map(|x| vec![x]),
            k_cutoff: Some(vec![6.0]),
            ..EwaldSettings::default()
        };
        let pairs = s.neighbor_list(4.0, &Serial)?;
        ewald_summation(&context, s, &settings, Some(&pairs), &Options::default()).map(|_| ())
    };
    let [crystal, slab, _, molecule] = Systems::all();
    let systems = crystal.system().unwrap();
    let two = |x: f64| Some(vec![x; 2]);
    let mut flat = slab.clone();
    flat.cells[0][1] = [2.0, 0.0, 0.0];
    let with_axes = |pbc: &[[bool; 3]]| Systems { pbc: pbc.to_vec(), ..slab.clone() };
    let widths = [0.0, 1.5].map(|width| vec![width; crystal.charges.len()]);
    let wide = |n: usize| crystal.system()?.with_widths((&widths[n][..]).into());
    let both = PmeSettings {
        mesh_spacing: Some(0.5),
        mesh_dimensions: Some(vec![[12; 3]]),
        ..PmeSettings::default()
    };
    let mesh = particle_mesh_ewald(&context, &systems, &both, None, &Options::default());
    // Of systems that are no lattice, too.
    let open = molecule.system().unwrap();
    let on_mesh = |settings: PmeSettings| {
        particle_mesh_ewald(&context, &open, &settings, None, &Options::default()).map(|_| ())
    };
    let too_many = Some(vec![[1 << 31, 12, 12]]);
    let waves = |indices, of| EwaldSettings { waves: Some((indices, of)), ..EwaldSettings::default() };
    for (name, result) in [
        ("alpha", ewald(&systems, EwaldSettings { alpha: two(0.8), ..EwaldSettings::default() })),
        ("cutoff", ewald(&systems, EwaldSettings { cutoff: two(4.0), ..EwaldSettings::default() })),
        ("accuracy", ewald(&systems, EwaldSettings::accuracy(-1.0))),
        ("mesh_spacing", mesh.map(|_| ())),
        ("spline_order", on_mesh(PmeSettings { spline_order: Some(vec![3]), ..PmeSettings::default() })),
        ("mesh_dimensions", on_mesh(PmeSettings { mesh_dimensions: too_many, ..PmeSettings::default() })),
        ("waves", ewald(&open, waves(vec![[1, 0, 0]], vec![0, 0]))),
        ("waves", ewald(&open, waves(vec![[1, 0, 0]], vec![1]))),
        ("waves", ewald(&systems, waves(vec![[0; 3]], vec![0]))),
        // Two vectors of one direction, a vector of zeros along a periodic axis, two rows for one system.
        ("cell", flat.system().map(|_| ())),
        ("cell", with_axes(&[[true; 3]]).system().map(|_| ())),
        ("pbc", with_axes(&[[true, true, false]; 2]).system().map(|_| ())),
        // Excluded pairs of a molecule are taken from its list, whose reach is not known.
        ("cutoff", listed(&molecule.excluding(true).unwrap(), None)),
        ("exclusions", crystal.system().unwrap().excluding(&crystal.pairs, &[0.0]).map(|_| ())),
        ("widths", wide(0).map(|_| ())),
        // The list ends before charges of this width are points to each other.
        ("cutoff", listed(&wide(1).unwrap(), Some(4.0))),
    ] {
        match result {
            Err(Error::Argument { argument, .. }) => assert_eq!(argument, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
