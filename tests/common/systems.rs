//! Systems to test on: random ones, jittered rock salt, and crystals whose Madelung constants are known.
//! Everything is a function of its arguments, seeds included: no test depends on chance.

use std::f64::consts::PI;

use super::oracle::{self, Reference, norm};

/// Charges in a periodic cell. Shapes (N, 3), (N,), (3, 3); lattice vectors are rows.
#[derive(Clone, Debug)]
pub struct System {
    /// Positions, L.
    pub positions: Vec<[f64; 3]>,
    /// Charges, e.
    pub charges: Vec<f64>,
    /// Lattice vectors, L.
    pub cell: [[f64; 3]; 3],
}

impl System {
    /// The converged Ewald sum of this system.
    pub fn ewald(&self) -> Reference {
        let alpha = oracle::balanced_alpha(self.positions.len(), &self.cell);
        oracle::ewald(&self.positions, &self.charges, &self.cell, alpha)
    }

    /// Volume, L³.
    pub fn volume(&self) -> f64 {
        oracle::volume(&self.cell)
    }

    /// Σ q².
    pub fn sum_of_squared_charges(&self) -> f64 {
        oracle::sum(self.charges.iter().map(|q| q * q))
    }

    /// q²_rms / (V/N)^{2/3}: the unit in which `accuracy` is measured.
    pub fn force_unit(&self) -> f64 {
        let n = self.positions.len() as f64;
        self.sum_of_squared_charges() / n / (self.volume() / n).powf(2.0 / 3.0)
    }

    /// Positions and cell after the strain r → r (1 + ε).
    pub fn strained(&self, strain: &[[f64; 3]; 3]) -> Self {
        let apply =
            |r: &[f64; 3]| std::array::from_fn(|b| r[b] + (0..3).map(|a| r[a] * strain[a][b]).sum::<f64>());
        Self {
            positions: self.positions.iter().map(apply).collect(),
            charges: self.charges.clone(),
            cell: std::array::from_fn(|i| apply(&self.cell[i])),
        }
    }

    /// This crystal with each atom moved by its own lattice vector, up to `reach` cells away.
    pub fn unwrapped(&self, seed: u64, reach: u64) -> Self {
        let mut rng = SplitMix64(seed);
        let mut moved = self.clone();
        for r in &mut moved.positions {
            for a in self.cell {
                let steps = (rng.next_u64() % (2 * reach + 1)) as f64 - reach as f64;
                *r = std::array::from_fn(|x| r[x] + steps * a[x]);
            }
        }
        moved
    }
}

/// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): one word of state, good enough for positions.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [lower, upper).
    pub fn uniform(&mut self, lower: f64, upper: f64) -> f64 {
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        lower + (upper - lower) * unit
    }

    /// Normal with mean 0 and variance 1, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(0.0, 1.0)).ln()).sqrt();
        radius * (2.0 * PI * self.uniform(0.0, 1.0)).cos()
    }
}

/// A right-handed orthorhombic cell of that volume, with unequal sides.
pub fn orthorhombic_cell(volume: f64) -> [[f64; 3]; 3] {
    scaled_to([[1.0, 0.0, 0.0], [0.0, 1.2, 0.0], [0.0, 0.0, 0.85]], volume)
}

/// A right-handed cell of that volume without a right angle or a zero.
pub fn triclinic_cell(volume: f64) -> [[f64; 3]; 3] {
    scaled_to([[1.0, 0.04, -0.13], [0.23, 0.94, 0.05], [-0.07, 0.3, 1.13]], volume)
}

/// The triclinic cell with two rows exchanged, so that its determinant is negative.
pub fn left_handed_cell(volume: f64) -> [[f64; 3]; 3] {
    let [a, b, c] = triclinic_cell(volume);
    [b, a, c]
}

fn scaled_to(shape: [[f64; 3]; 3], volume: f64) -> [[f64; 3]; 3] {
    let factor = (volume / oracle::volume(&shape)).cbrt();
    shape.map(|row| row.map(|x| factor * x))
}

/// `natoms` charges at random places of a cell, no two nearer than `min_distance`, images included. Charges
/// are uniform in [−1, 1), then shifted to add up to `total_charge`.
///
/// # Panics
/// If no room is found for an atom.
pub fn random_system(
    seed: u64,
    natoms: usize,
    cell: [[f64; 3]; 3],
    total_charge: f64,
    min_distance: f64,
) -> System {
    let mut rng = SplitMix64(seed);
    let mut positions: Vec<[f64; 3]> = Vec::with_capacity(natoms);
    let mut attempts = 0;
    while positions.len() < natoms {
        attempts += 1;
        assert!(attempts < 1_000_000, "no room for {natoms} atoms {min_distance} apart");
        let f: [f64; 3] = std::array::from_fn(|_| rng.uniform(0.0, 1.0));
        let r = std::array::from_fn(|x| (0..3).map(|a| f[a] * cell[a][x]).sum());
        if positions.iter().all(|&other| nearest_image_distance(r, other, &cell) >= min_distance) {
            positions.push(r);
        }
    }
    let mut charges: Vec<f64> = (0..natoms).map(|_| rng.uniform(-1.0, 1.0)).collect();
    let excess = (oracle::sum(charges.iter().copied()) - total_charge) / natoms as f64;
    charges.iter_mut().for_each(|q| *q -= excess);
    System { positions, charges, cell }
}

/// Distance between two points of a cell that is not skewed by more than the cells above.
fn nearest_image_distance(a: [f64; 3], b: [f64; 3], cell: &[[f64; 3]; 3]) -> f64 {
    let mut nearest = f64::INFINITY;
    for n in 0..125 {
        let shift = [n % 5 - 2, n / 5 % 5 - 2, n / 25 - 2].map(f64::from);
        let d = std::array::from_fn(|x| b[x] - a[x] + (0..3).map(|i| shift[i] * cell[i][x]).sum::<f64>());
        nearest = nearest.min(norm(d));
    }
    nearest
}

/// Rock salt of `repeats` conventional cells a side and nearest-neighbour distance `distance`, every
/// coordinate moved by a normal deviate times `jitter`; zero leaves the crystal as it is.
pub fn rock_salt(repeats: usize, distance: f64, jitter: f64, seed: u64) -> System {
    let mut rng = SplitMix64(seed);
    let sites = 2 * repeats;
    let mut positions = Vec::new();
    let mut charges = Vec::new();
    for x in 0..sites {
        for y in 0..sites {
            for z in 0..sites {
                positions.push([x, y, z].map(|i| distance * i as f64 + jitter * rng.normal()));
                charges.push(if (x + y + z) % 2 == 0 { 1.0 } else { -1.0 });
            }
        }
    }
    System { positions, charges, cell: cubic(sites as f64 * distance) }
}

/// A crystal whose energy is known: E = −madelung_constant · formula_units / distance, in e²/L.
#[derive(Clone, Debug)]
pub struct Crystal {
    /// The name, such as `NaCl`.
    pub name: &'static str,
    /// The conventional cell, in f64-exact lattice positions.
    pub system: System,
    /// The length unit of the constant: the nearest-neighbour distance, or the lattice parameter for `Wigner`.
    pub distance: f64,
    /// Formula units in the cell.
    pub formula_units: f64,
    /// The known constant.
    pub madelung_constant: f64,
}

impl Crystal {
    /// The constant that an energy of this cell amounts to.
    pub fn constant_from(&self, energy: f64) -> f64 {
        -energy * self.distance / self.formula_units
    }
}

/// NaCl, CsCl, zincblende ZnS (unit charges), fluorite CaF₂ and one charge in a cubic box with its background.
///
/// Constants: Borwein, Glasser, McPhedran, Wan and Zucker, *Lattice Sums Then and Now* (2013); for the single
/// charge Nijboer and Ruijgrok, J. Stat. Phys. 53, 361 (1988). Fluorite is CsCl plus twice zincblende, all at
/// one anion-cation distance.
pub fn known_crystals() -> Vec<Crystal> {
    let fcc = [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]];
    let shifted = |by: f64| fcc.map(|site| site.map(|x| x + by));
    let (sodium_chloride, caesium_chloride, zincblende) =
        (1.747_564_594_633_182, 1.762_674_773_070_988_4, 1.638_055_053_388_789_4);
    let half = 0.5;
    let quarter_diagonal = 0.25 * f64::sqrt(3.0);
    vec![
        crystal("NaCl", &[(1.0, &fcc), (-1.0, &shifted(0.5))], half, 4.0, sodium_chloride),
        crystal(
            "CsCl",
            &[(1.0, &[[0.0; 3]]), (-1.0, &[[0.5; 3]])],
            2.0 * quarter_diagonal,
            1.0,
            caesium_chloride,
        ),
        crystal("ZnS", &[(1.0, &fcc), (-1.0, &shifted(0.25))], quarter_diagonal, 4.0, zincblende),
        crystal(
            "CaF2",
            &[(2.0, &fcc), (-1.0, &shifted(0.25)), (-1.0, &shifted(0.75))],
            quarter_diagonal,
            4.0,
            caesium_chloride + 2.0 * zincblende,
        ),
        crystal("Wigner", &[(1.0, &[[0.0; 3]])], 1.0, 1.0, 0.5 * 2.837_297_479_480_619_5),
    ]
}

/// Sublattices of (charge, sites) in a cubic cell of side 1.
fn crystal(
    name: &'static str,
    sublattices: &[(f64, &[[f64; 3]])],
    distance: f64,
    formula_units: f64,
    madelung_constant: f64,
) -> Crystal {
    let mut system = System { positions: Vec::new(), charges: Vec::new(), cell: cubic(1.0) };
    for (charge, sites) in sublattices {
        system.positions.extend(sites.iter());
        system.charges.extend(sites.iter().map(|_| charge));
    }
    Crystal { name, system, distance, formula_units, madelung_constant }
}

fn cubic(side: f64) -> [[f64; 3]; 3] {
    [[side, 0.0, 0.0], [0.0, side, 0.0], [0.0, 0.0, side]]
}
