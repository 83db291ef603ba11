//! Systems, lists and requests: whatever an op of the registry can be asked.

use crate::common::systems::{SplitMix64, System, left_handed_cell, random_system, triclinic_cell};
use crate::support::{Arrays, exclusions_of, widths_of};
use madelung::Result;
use madelung::array::{Array, DType, View};
use madelung::backend::Context;
use madelung::backend::pool::Serial;
use madelung::batch::Batch;
use madelung::electrostatics::kvectors::miller_indices_batch;
use madelung::map::Map;
use madelung::mesh::Mesh;
use madelung::op::{Arg, ArgKind, Cotangent, Evaluated, Op, Request};
use madelung::pairs::{Kind, PairList};
use madelung_core::runtime::{Form, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CUTOFF: f64 = 5.5;
const TAPER: f64 = 3.5;
const K_CUTOFF: f64 = 3.0;
/// Nodes along the axes, odd and even, and the order of splines, of one system after the other.
const MESHES: [([usize; 3], usize); 3] = [([5, 7, 6], 5), ([5, 7, 6], 5), ([5, 5, 7], 4)];

/// Tables of the pair potentials, and about what their elements are.
const PARAMETERS: [(&str, f64); 19] = [
    ("amplitude", 1.2),
    ("attractive", 5.0),
    ("c10", 1.7),
    ("c6", 1.5),
    ("c8", 1.6),
    ("coupling", 0.4),
    ("curvature", 0.2),
    ("depth", 1.0),
    ("epsilon", 1.0),
    ("integral", 0.4),
    ("kappa", 0.8),
    ("length", 1.3),
    ("repulsive", 9.0),
    ("rho", 1.4),
    ("sigma", 1.1),
    ("slope", -0.3),
    ("softness", 0.5),
    // Times the least distance it is 6: below, the damping of Tang and Toennies is a difference of near numbers.
    ("steepness", 5.0),
    ("value", 0.1),
];
/// Parameters of types for mixing rules, and about what they are.
const OF_TYPES: [(&str, f64); 2] = [("epsilon", 0.6), ("sigma", 0.8)];
/// Parameters of bonded terms, and about what they are.
const OF_TERMS: [(&str, f64); 14] = [
    ("c0", 0.9),
    ("c1", -0.4),
    ("c2", 0.3),
    ("c3", 0.7),
    ("c4", -0.2),
    ("c5", 0.5),
    ("depth", 1.0),
    ("epsilon", 0.7),
    ("periodicity", 2.0),
    ("phase", 0.4),
    ("rest", 1.6),
    ("sigma", 1.2),
    ("steepness", 0.7),
    ("stiffness", 1.2),
];
/// The places of atoms in bonded terms.
const PLACES: [&str; 4] = ["a", "b", "c", "d"];

/// A batch of charges with types, and a value for every argument that an op may have.
pub(crate) struct Input {
    pub(crate) name: String,
    arrays: BTreeMap<&'static str, Array>,
    /// Arrays of types alone, and of bonded terms.
    of_types: BTreeMap<&'static str, Array>,
    of_terms: BTreeMap<&'static str, Array>,
    /// Parameters of atoms.
    of_atoms: BTreeMap<&'static str, Array>,
    /// The atoms of bonded terms at each place, and their systems.
    terms: [Map<'static>; 4],
    of_systems: Map<'static>,
    atoms: Batch<'static>,
    waves: Batch<'static>,
    types: Map<'static>,
    /// Types of others, so that pairs are of one type and of two.
    others: Map<'static>,
    exclusion_of: Map<'static>,
    pairs: PairList<'static>,
    mesh: Mesh,
}

/// One system of more rows than a block has threads, and a batch of a left-handed cell, an empty one, a single charge
/// and a charged one; each with every kind of list.
pub(crate) fn inputs(dtype: DType) -> Vec<Input> {
    let one = [random_system(1, 40, triclinic_cell(900.0), 0.0, 1.2)];
    let several = [
        random_system(2, 11, left_handed_cell(240.0), 0.0, 1.2),
        random_system(3, 0, triclinic_cell(200.0), 0.0, 1.2),
        random_system(4, 1, triclinic_cell(150.0), 1.0, 1.2),
        random_system(5, 9, triclinic_cell(190.0), 1.5, 1.2),
    ];
    let with_lists = |name, systems: &[System]| {
        lists(&full_list(systems, dtype))
            .map(|(list, pairs)| Input::new(&format!("{name}, {list}"), systems, dtype, pairs))
    };
    with_lists("one system", &one).into_iter().chain(with_lists("a batch", &several)).collect()
}

/// One system whose rows have 0, 1, 31, 32, 33 and 500 pairs, in turn.
pub(crate) fn uneven_rows(dtype: DType) -> Input {
    let systems = [random_system(6, 14, triclinic_cell(300.0), 0.0, 1.2)];
    let n = systems[0].charges.len();
    // Near images first, so that long rows have pairs on both sides of the cutoff.
    let images = (0..125).map(|k: usize| [k, k / 5, k / 25].map(|n| [0, 1, -1, 2, -2][n % 5]));
    let others = |i: usize| images.clone().flat_map(move |s| (0..n).map(move |j| (i, j, s)));
    let is_itself = |(i, j, s): &(usize, usize, [i32; 3])| i == j && *s == [0; 3];
    let lengths = [0, 1, 31, 32, 33, 500].into_iter().cycle();
    let pairs: Vec<_> =
        (0..n).zip(lengths).flat_map(|(i, m)| others(i).filter(|p| !is_itself(p)).take(m)).collect();
    let list = PairList::from_coo(
        &pairs.iter().map(|p| p.0 as i32).collect::<Vec<_>>(),
        pairs.iter().map(|p| p.1 as i32).collect::<Vec<_>>(),
        pairs.iter().map(|p| p.2).collect::<Vec<_>>(),
        n,
        n,
        Kind::Directed,
    );
    Input::new("uneven rows, directed list", &systems, dtype, list.expect("a list"))
}

/// It reaches beyond the cutoff, so that the kernels' own test of the distance decides.
fn full_list(systems: &[System], dtype: DType) -> PairList<'static> {
    Arrays::new(systems, dtype)
        .system()
        .neighbor_list(CUTOFF + 0.4, &Serial)
        .expect("a list")
        .rows(&Serial)
        .into_owned()
}

/// The same pairs as each kind of list; the directed one lacks some of them in one direction, some in both.
fn lists(full: &PairList<'static>) -> [(&'static str, PairList<'static>); 4] {
    let n = full.columns();
    let matrix = full.to_matrix(None, -1).expect("a matrix");
    let shape = [n, matrix.width];
    let padded = PairList::from_matrix(matrix.neighbor_matrix, shape, matrix.shifts, -1, n, Kind::Full);
    let some: Vec<_> = full.iter().filter(|(i, j, _)| (i + 2 * j) % 3 != 0).collect();
    let rows: Vec<i32> = some.iter().map(|(i, ..)| *i as i32).collect();
    let columns: Vec<i32> = some.iter().map(|(_, j, _)| *j as i32).collect();
    let shifts: Vec<[i32; 3]> = some.iter().map(|(.., s)| *s).collect();
    let directed = PairList::from_coo(&rows, columns, shifts, n, n, Kind::Directed);
    // A half list as an op may be given it: nothing is promised about the way back.
    let half = full.to_half().expect("a half list").into_owned().into_csr();
    let half = PairList::from_csr(half.neighbor_ptr, half.others, half.shifts, n, Kind::Directed);
    [
        ("full list", full.clone()),
        ("padded full list", padded.expect("a list")),
        ("half list", half.expect("a list")),
        ("directed list", directed.expect("a list")),
    ]
}

impl Input {
    fn new(name: &str, systems: &[System], dtype: DType, pairs: PairList<'static>) -> Self {
        let cells: Vec<_> = systems.iter().map(|s| s.cell).collect();
        let (miller, ptr) = miller_indices_batch(&cells, &[K_CUTOFF]).expect("wave vectors");
        let alphas: Vec<f64> = (0..systems.len()).map(|b| 0.45 + 0.06 * b as f64).collect();
        let owns: Vec<f64> = (0..systems.len()).map(|b| 1.0 - b as f64).collect();
        let given = Arrays::new(systems, dtype);
        let (atoms, waves) = (given.batch(), Batch::from_ptr(ptr).expect("a batch"));
        let mut arrays = BTreeMap::from([
            ("positions", given.positions),
            ("charges", given.charges),
            ("cell", given.cell),
            ("alpha", Array::from_f64(dtype, &[systems.len()], &alphas).expect("a shape that fits")),
            ("own", Array::from_f64(dtype, &[systems.len()], &owns).expect("a shape that fits")),
            ("miller", View::from(miller.as_slice()).to_array().unwrap()),
        ]);
        arrays.insert("widths", widths_of(atoms.atoms(), dtype));
        arrays.insert("exponents", widths_of(atoms.atoms(), dtype));
        arrays.insert("electronegativity", widths_of(atoms.atoms(), dtype));
        arrays.insert("background", Array::filled(dtype, &[systems.len()], 0.8));
        let factors = [0.0, 0.3, 1.0, 0.7, 0.5];
        arrays.insert(
            "factors",
            Array::from_f64(dtype, &[factors.len()], &factors).expect("a shape that fits"),
        );
        let axes: Vec<[i32; 3]> =
            (0..systems.len()).map(|b| [0, 1, 2].map(|k| i32::from(k == b % 3))).collect();
        arrays.insert("open_axis", Array::from(axes.as_slice()));
        arrays.insert("wire_axis", Array::from(axes.as_slice()));
        let is_open: Vec<i32> = (0..systems.len()).map(|b| i32::from(b % 2 == 0)).collect();
        arrays.insert("is_open", Array::from(is_open));
        // Sums of small systems at once: two images along each axis, a cutoff within the smallest height, and each wave a
        // line of its own.
        arrays.insert("cutoff", Array::filled(dtype, &[systems.len()], 3.0));
        arrays.insert("beside", Array::zeros(DType::I32, &[miller.len()]));
        arrays.insert("lines", View::from(miller.as_slice()).to_array().unwrap());
        let exponents: Vec<f64> = (0..systems.len()).map(|b| [6.0, 1.0, 5.0][b % 3]).collect();
        arrays.insert(
            "exponent",
            Array::from_f64(dtype, &[systems.len()], &exponents).expect("a shape that fits"),
        );
        let exclusion_of = exclusions_of(&pairs, factors.len());
        for (name, about) in PARAMETERS {
            let table = [0.0, 0.1, 0.3, 0.2].map(|x| about + x);
            arrays.insert(name, Array::from_f64(dtype, &[2, 2], &table).expect("a shape that fits"));
        }
        let real = |x: &[f64]| Array::from_f64(dtype, &[x.len()], x).expect("a shape that fits");
        let of_types = OF_TYPES.map(|(name, about)| (name, real(&[about, about + 0.5]))).into();
        let of_atoms = [("epsilon", 0.8), ("arithmetic", 0.5), ("geometric", 0.3)];
        let each =
            |about: f64| (0..atoms.atoms()).map(|i| about + 0.1 * (i % 4) as f64).collect::<Vec<f64>>();
        let of_atoms = of_atoms.map(|(name, about)| (name, real(&each(about)))).into();
        // Any four atoms of a system, one after the other, and the same from the other side.
        let chains = (0..systems.len()).flat_map(|b| {
            let members: Vec<i32> = atoms.members(b).map(|i| i as i32).collect();
            let chains: Vec<[i32; 4]> = members.windows(4).map(|w| [w[0], w[1], w[2], w[3]]).collect();
            chains.into_iter().map(move |chain| (b as i32, chain))
        });
        let chains: Vec<(i32, [i32; 4])> = chains.collect();
        let about =
            |about: f64| -> Vec<f64> { (0..chains.len()).map(|p| about + 0.1 * (p % 4) as f64).collect() };
        let of_terms = OF_TERMS.map(|(name, x)| (name, real(&about(x)))).into();
        let place = |k: usize| chains.iter().map(|(_, of)| of[k]).collect::<Vec<_>>();
        let terms = [0, 1, 2, 3].map(|k| Map::new(place(k), atoms.atoms()).expect("a map"));
        let of_systems = chains.iter().map(|(b, _)| *b).collect::<Vec<_>>();
        let of_systems = Map::new(of_systems, systems.len()).expect("a map");
        let flat: Vec<i32> = chains.iter().flat_map(|(_, of)| *of).collect();
        arrays.insert("terms", Array::from(flat));
        arrays.insert("periodic", Array::filled(DType::I32, &[systems.len(), 3], 1.0));
        let types = (0..atoms.atoms()).map(|i| (i % 3 % 2) as i32).collect::<Vec<_>>();
        arrays.insert("kind", Array::from(types.clone()));
        let types = Map::new(types, 2).expect("a map");
        arrays.insert("number", real(&[0.0, 1.0]));
        arrays
            .insert("distance", real(&(0..atoms.atoms()).map(|i| 2.0 + 0.1 * i as f64).collect::<Vec<_>>()));
        let fields: Vec<f64> = (0..3 * systems.len()).map(|k| 0.3 - 0.2 * k as f64).collect();
        arrays.insert(
            "field",
            Array::from_f64(dtype, &[systems.len(), 3], &fields).expect("a shape that fits"),
        );
        let others = (0..atoms.atoms()).map(|i| (i % 4 / 2) as i32).collect::<Vec<_>>();
        let others = Map::new(others, 2).expect("a map");
        let meshes: Vec<_> = MESHES.into_iter().cycle().take(systems.len()).collect();
        let mesh = Mesh::of_systems(&meshes).expect("meshes");
        let name = name.into();
        Self {
            name,
            arrays,
            of_types,
            of_terms,
            of_atoms,
            terms,
            of_systems,
            atoms,
            waves,
            types,
            others,
            exclusion_of,
            pairs,
            mesh,
        }
    }

    /// The entries of the list.
    pub(crate) fn entries(&self) -> usize {
        self.pairs.others().len()
    }

    /// Whether nothing is added to the partners of pairs.
    pub(crate) fn gathers(&self) -> bool {
        self.pairs.kind() == Kind::Full
    }

    /// The same in another dtype; f64 has every number that f32 has.
    pub(crate) fn cast(&self, dtype: DType) -> Self {
        let cast = |(name, a): (&&'static str, &Array)| match a.dtype() {
            DType::I32 => (*name, a.try_clone().unwrap()),
            _ => (*name, a.cast(dtype).unwrap()),
        };
        let all = |arrays: &BTreeMap<&'static str, Array>| arrays.iter().map(cast).collect();
        Self {
            name: self.name.clone(),
            arrays: all(&self.arrays),
            of_types: all(&self.of_types),
            of_terms: all(&self.of_terms),
            of_atoms: all(&self.of_atoms),
            terms: self.terms.clone(),
            of_systems: self.of_systems.clone(),
            atoms: self.atoms.clone(),
            waves: self.waves.clone(),
            types: self.types.clone(),
            others: self.others.clone(),
            exclusion_of: self.exclusion_of.clone(),
            pairs: self.pairs.clone(),
            mesh: self.mesh.clone(),
        }
    }

    /// The array for an argument.
    fn array(&self, op: &Op, name: &str) -> Option<&Array> {
        let has = |map: &str| op.args.iter().any(|a| a.name == map);
        let own = match () {
            () if (has("first") && !has("distance")) || has("is_geometric") => self.of_types.get(name),
            () if has("a") => self.of_terms.get(name),
            () if has("arithmetic") => self.of_atoms.get(name),
            () => None,
        };
        own.or_else(|| self.arrays.get(name))
    }

    /// The arguments of an op.
    ///
    /// # Panics
    /// Where it has one that is not known here: then it belongs to the others.
    pub(crate) fn args(&self, op: &Op) -> Vec<Arg<'_>> {
        op.args
            .iter()
            .map(|spec| match (&spec.kind, self.array(op, &spec.name), spec.name.as_str()) {
                (ArgKind::Real { zero: true, .. }, ..) => Arg::Zero,
                (ArgKind::Real { .. } | ArgKind::Ints { .. }, Some(array), _) => Arg::Array(array.view()),
                (ArgKind::Batch { .. }, _, "atoms" | "batch_idx") => Arg::Structure(&self.atoms),
                (ArgKind::Batch { .. }, _, "waves" | "line_systems") => Arg::Structure(&self.waves),
                (ArgKind::Map { .. }, _, "types" | "first") => Arg::Structure(&self.types),
                (ArgKind::Map { .. }, _, "second") => Arg::Structure(&self.others),
                (ArgKind::Map { .. }, _, "system") => Arg::Structure(&self.of_systems),
                (ArgKind::Map { .. }, _, place) if PLACES.contains(&place) => {
                    let at = PLACES.iter().position(|p| *p == place).expect("one of them");
                    Arg::Structure(&self.terms[at])
                }
                (ArgKind::Map { .. }, _, "exclusion_of") => Arg::Structure(&self.exclusion_of),
                (ArgKind::Pairs { .. }, _, "pairs" | "excluded") => Arg::Structure(&self.pairs),
                (ArgKind::Mesh { .. }, ..) => Arg::Structure(&self.mesh),
                (ArgKind::IntScalar, _, "images_1" | "images_2" | "images_3") => Arg::Int(2),
                (ArgKind::IntScalar, _, "width") => Arg::Int(4),
                (ArgKind::IntScalar, _, "is_geometric") => Arg::Int(0),
                (ArgKind::Scalar, _, "cutoff") => Arg::Real(CUTOFF),
                (ArgKind::Scalar, _, "prefactor") => Arg::Real(1.7),
                (ArgKind::Scalar, _, "real") => Arg::Real(1.0),
                (ArgKind::Scalar, _, "reciprocal") => Arg::Real(0.5),
                (ArgKind::Scalar, _, "taper" | "bend") => Arg::Real(TAPER),
                (ArgKind::Scalar, _, "switch") => Arg::Real(0.5 * (TAPER + CUTOFF)),
                (kind, _, name) => panic!("{}: what should `{name}` ({kind:?}) be?", op.full_name()),
            })
            .collect()
    }

    /// A tangent of each differentiable argument that `which` wants.
    fn direction(&self, op: &Op, seed: u64, which: impl Fn(&str) -> bool) -> Vec<Option<Arc<Array>>> {
        let mut rng = SplitMix64(seed);
        let dtype = self.arrays["positions"].dtype();
        let tangent = |(n, spec): (usize, &madelung::op::ArgSpec)| {
            let shape = match spec.name.as_str() {
                "strain" => self.arrays["cell"].shape(),
                name => self.array(op, name).map_or(&[][..], Array::shape),
            };
            let numbers: Vec<f64> = (0..shape.iter().product()).map(|_| rng.uniform(-0.5, 0.5)).collect();
            let wanted = op.is_differentiable(n) && which(&spec.name);
            wanted.then(|| Arc::new(Array::from_f64(dtype, shape, &numbers).expect("a shape that fits")))
        };
        op.args.iter().enumerate().map(tangent).collect()
    }

    /// Every member of an op's family, in every way that has a form of its own or a way of its own to one.
    pub(crate) fn questions(&self, op: &Op) -> Vec<Question> {
        let names: Vec<&str> = (0..op.args.len())
            .filter(|n| op.is_differentiable(*n))
            .map(|n| op.args[n].name.as_str())
            .collect();
        let alone = |name: &'_ str| {
            let name = name.to_string();
            move |n: &str| n == name
        };
        let all = |_: &str| true;
        let ask = |member, title: &str| Question { member, title: title.into(), ..Question::default() };
        let mut asked = vec![Question { values: true, ..ask("F0", "value") }];
        // Integers have no derivatives.
        if op.outputs.iter().all(|output| output.dtype.is_some()) {
            return asked;
        }
        let u = self.direction(op, 11, all);
        let v = self.direction(op, 12, all);
        asked.push(Question { directions: vec![u.clone()], ..ask("F1", "along everything") });
        asked.push(Question {
            directions: vec![u.clone(), v.clone()],
            ..ask("F2", "along everything, twice")
        });
        for name in &names {
            let one = self.direction(op, 13, alone(name));
            let title = format!("along {name}");
            asked.push(Question { directions: vec![one.clone()], ..ask("F1", &title) });
            asked.push(Question {
                directions: vec![one, v.clone()],
                ..ask("F2", &format!("{title}, then everything"))
            });
        }
        let mut sets = gradient_sets(op);
        let everything: BTreeSet<usize> = (0..op.args.len()).filter(|n| op.is_differentiable(*n)).collect();
        sets.insert(everything.clone());
        sets.extend(names.iter().filter_map(|n| op.arg(n)).map(|n| BTreeSet::from([n])));
        for gradients in sets {
            let title: Vec<&str> = gradients.iter().map(|n| op.args[*n].name.as_str()).collect();
            let title = title.join(", ");
            for weights in [Weights::Uniform, Weights::PerRow] {
                let title = format!("by {title}, {weights:?}");
                let of = |values, directions, member| Question {
                    values,
                    directions,
                    weights,
                    gradients: gradients.iter().copied().collect(),
                    ..ask(member, &title)
                };
                asked.push(of(true, vec![], "G0"));
                asked.push(of(false, vec![], "G0"));
                asked.push(of(false, vec![u.clone()], "G1"));
                for name in &names {
                    let along = vec![self.direction(op, 14, alone(name))];
                    asked.push(Question { is_crossed: gradients != everything, ..of(false, along, "G1") });
                }
            }
        }
        asked
    }
}

/// The sets of arguments for which a kernel of the op has a form of its own.
fn gradient_sets(op: &Op) -> BTreeSet<BTreeSet<usize>> {
    let set = |buffers: &[usize], form: &Form| -> Option<BTreeSet<usize>> {
        let set: BTreeSet<usize> = form.gradients?.iter().map(|p| buffers[*p]).collect();
        (form.member == Member::Gradient && set.iter().all(|b| *b < op.args.len())).then_some(set)
    };
    op.steps()
        .iter()
        .filter_map(|s| Some((s.kernel()?, &s.buffers)))
        .flat_map(|(k, buffers)| k.forms.iter().filter_map(|f| set(buffers, f)).collect::<Vec<_>>())
        .collect()
}

/// The cotangents of a question.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) enum Weights {
    #[default]
    None,
    Uniform,
    PerRow,
}

/// A request that owns its arrays.
#[derive(Clone, Default)]
pub(crate) struct Question {
    pub(crate) member: &'static str,
    pub(crate) title: String,
    values: bool,
    directions: Vec<Vec<Option<Arc<Array>>>>,
    weights: Weights,
    pub(crate) gradients: Vec<usize>,
    /// Whether it is about the gradient by some arguments along another one: most questions, and no other kernels than
    /// those of gradients along everything.
    pub(crate) is_crossed: bool,
}

impl Question {
    /// The same in another dtype.
    pub(crate) fn cast(&self, dtype: DType) -> Self {
        let cast = |d: &Vec<Option<Arc<Array>>>| {
            d.iter().map(|a| a.as_ref().map(|a| Arc::new(a.cast(dtype).unwrap()))).collect()
        };
        Self { directions: self.directions.iter().map(cast).collect(), ..self.clone() }
    }

    /// Asks it. `rows`: the shape of the outputs.
    pub(crate) fn ask(
        &self,
        op: &Op,
        context: &Context<'_>,
        args: &[Arg<'_>],
        outputs: &[Array],
    ) -> Result<Evaluated> {
        self.ask_by(outputs, &mut |request| op.evaluate(context, args, request))
    }

    /// Asks it of whoever evaluates.
    pub(crate) fn ask_by(
        &self,
        outputs: &[Array],
        evaluate: &mut dyn FnMut(&Request<'_, '_>) -> Result<Evaluated>,
    ) -> Result<Evaluated> {
        let views: Vec<Vec<Option<View<'_>>>> = self
            .directions
            .iter()
            .map(|d| d.iter().map(|a| a.as_ref().map(|a| a.view())).collect())
            .collect();
        let directions: Vec<&[Option<View<'_>>]> = views.iter().map(Vec::as_slice).collect();
        let weights: Vec<Array> = outputs.iter().map(weights_for).collect();
        let cotangents: Vec<Option<Cotangent<'_>>> = match self.weights {
            Weights::None => vec![],
            Weights::Uniform => vec![Some(Cotangent::Uniform(-0.75)); outputs.len()],
            Weights::PerRow => weights.iter().map(|w| Some(Cotangent::Array(w.view()))).collect(),
        };
        let request = Request {
            values: self.values,
            directions: &directions,
            cotangents: &cotangents,
            gradients: &self.gradients,
            ..Request::default()
        };
        evaluate(&request)
    }
}

/// Numbers that f32 has as well.
fn weights_for(output: &Array) -> Array {
    let mut rng = SplitMix64(15);
    let numbers: Vec<f64> =
        output.to_f64().unwrap().iter().map(|_| f64::from(rng.uniform(-1.0, 1.0) as f32)).collect();
    Array::from_f64(output.dtype(), output.shape(), &numbers).expect("a shape that fits")
}
