//! The terms of a sum.

use super::boundaries::{Boundaries, said};
use super::numbers::OPEN_REACH;
use super::{
    Atoms, Cells, Edge, Given, Height, Input, Kind, Method, Pairs, Parameter, Plan, Request, Rows, Sum, Term,
    Terms, UNBOUNDED, unsplit,
};
use madelung_core::{Error, Result};

/// The plan of a request.
///
/// # Errors
/// The argument that does not go with the others.
pub fn compose(request: &Request) -> Result<Plan> {
    if let Sum::Latent { .. } = request.sum {
        check_latent(request)?;
    }
    let edges = Boundaries::of(request)?;
    let given = &request.given;
    if let Sum::Latent { with_selves } = request.sum {
        return Ok(Plan::Sum(Composer { request, given, edges }.latent(with_selves)));
    }
    if !request.sum.is_whole() {
        return Ok(Plan::Sum(Composer { request, given, edges }.part()?));
    }
    request.law.check(request, &edges)?;
    check(request, &edges)?;
    let mut method = request.method;
    let is_open = !(given.alpha || given.cutoff || given.k_cutoff || given.waves || given.slab_height);
    let is_plain = !(given.list || given.exclusions || given.widths) && request.law.is_coulomb();
    if method.is_none()
        && request.sum == Sum::Waves
        && is_open
        && is_plain
        && given.readable
        && edges.has_lattice()
    {
        let Some(kinds) = &request.kinds else { return Ok(Plan::Ask) };
        let mut different = kinds.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() > 1 {
            let of = |kind: &Kind| (0..kinds.len()).filter(|b| kinds[*b] == *kind).collect();
            return Ok(Plan::Parts(different.iter().map(|kind| (method_of(*kind), of(kind))).collect()));
        }
        method = different.first().map(|kind| method_of(*kind));
    }
    let sum = Composer { request, given: &request.given, edges };
    Ok(Plan::Sum(if method == Some(Method::Direct) { sum.direct()? } else { sum.listed() }))
}

fn method_of(kind: Kind) -> Method {
    if kind == Kind::List { Method::List } else { Method::Direct }
}

/// Refuses what no sum has.
fn check(request: &Request, edges: &Boundaries) -> Result<()> {
    let given = &request.given;
    if given.k_cutoff && given.waves {
        return Err(Error::argument("k_cutoff", "it or `miller_indices`", "both"));
    }
    let has_waves = if request.sum == Sum::Mesh { given.mesh } else { given.waves };
    if edges.slabs().is_some() && has_waves && !given.slab_height && !given.readable {
        let expected = "the height of the slabs' cell, to which the waves or the mesh belong: positions have no values here \
                        by which that of `cell` could be checked";
        return Err(Error::argument("slab_height", expected, "None"));
    }
    if given.list && !given.cutoff && given.exclusions && edges.open().is_some() {
        // A list that ends somewhere would end the sum, too.
        let expected = "the cutoff of the list, beyond which open systems are summed without it";
        return Err(Error::argument("cutoff", expected, "None"));
    }
    let is_listed = request.method != Some(Method::Direct) && edges.has_lattice();
    if given.list && given.cutoff && !request.law.is_coulomb() && edges.open().is_some() {
        // Other inverse powers of open systems are summed over lists.
        let expected = "None, or plain arrays with all pairs of open systems, with `exponent` above 1";
        return Err(Error::argument("neighbors", expected, "a list that ends at a cutoff"));
    }
    if given.list && !given.cutoff && !given.alpha && is_listed {
        let expected = "the cutoff that the neighbour list was built for, as `alpha` is chosen for it";
        return Err(Error::argument("cutoff", expected, "None"));
    }
    Ok(())
}

/// Refuses what sums of latent charges lack.
fn check_latent(request: &Request) -> Result<()> {
    for (is_given, name) in [(request.given.exclusions, "exclusions"), (request.given.widths, "widths")] {
        if is_given {
            return Err(Error::argument(name, "None with latent charges", "it"));
        }
    }
    let is_mixed = |row: &[bool; 3]| row.contains(&true) && row.contains(&false);
    let axes = request.pbc.as_deref().unwrap_or_default();
    match axes.iter().position(is_mixed) {
        Some(b) => Err(Error::argument("pbc", "all axes of a system, or none of them", said(axes, b))),
        None => Ok(()),
    }
}

struct Composer<'a> {
    request: &'a Request,
    given: &'a Given,
    edges: Boundaries,
}

impl Composer<'_> {
    /// An input with another number in the rows of systems that are no lattice.
    fn masked(&self, value: f64, input: Input) -> Input {
        if self.edges.is_lattice() {
            return input;
        }
        Input::Masked(value, self.edges.no_lattice(), Box::new(input))
    }

    /// The atoms of a sum over the lattice: those of other systems have no charge.
    fn lattice(&self) -> Atoms {
        Atoms { lattice: true, charged: self.edges.charged(Edge::Lattice) }
    }

    fn given_atoms() -> Atoms {
        Atoms { lattice: false, charged: None }
    }

    fn slabs(&self, terms: &mut Vec<Term>) {
        if let Some(axes) = self.edges.slabs() {
            let (op, rest) = ("slab_correction".to_string(), vec![Input::Integers(axes)]);
            terms.push(Term { op, atoms: self.lattice(), reals: vec![], rest });
        }
    }

    /// The sums over all pairs of wires and of open systems. With exclusions they take a list without these, of which pairs
    /// within a cutoff count.
    fn whole(&self, terms: &mut Vec<Term>, pairs: Option<(Input, Input)>) {
        let mut term = |name: &str, edge: Edge, rows: Option<Rows<Vec<i32>>>| {
            let Some(rows) = rows else { return };
            let Some((pairs, reach)) = pairs.clone().filter(|_| self.given.exclusions) else {
                let (op, rest) = (name.to_string(), vec![Input::Integers(rows)]);
                return terms.push(Term { op, atoms: Self::given_atoms(), reals: vec![], rest });
            };
            let rest = vec![
                Input::Integers(rows),
                pairs,
                Input::Excluded,
                reach,
                Input::Scalar(1.0),
                Input::Scalar(1.0),
            ];
            let atoms = Atoms { lattice: false, charged: self.edges.charged(edge) };
            terms.push(Term { op: format!("{name}_without"), atoms, reals: vec![], rest });
        };
        term("wire_summation", Edge::Wire, self.edges.wires());
        term("open_summation", Edge::Open, self.edges.open());
    }

    /// The sum of an inverse power over all pairs of open systems, which a list has: one that is not split.
    fn open_power(&self, terms: &mut Vec<Term>, pairs: Input) {
        let law = &self.request.law;
        let atoms = Atoms { lattice: false, charged: self.edges.charged(Edge::Open) };
        let reals = [vec![Input::Number(unsplit(self.given.narrow))], law.reals()].concat();
        let rest = vec![pairs, Input::Scalar(UNBOUNDED)];
        let op = |name: &str| format!("{}_{name}", law.prefix());
        terms.push(Term { op: op("real_space"), atoms: atoms.clone(), reals: reals.clone(), rest });
        if self.given.exclusions {
            let rest =
                vec![Input::Excluded, Input::Scalar(UNBOUNDED), Input::Scalar(1.0), Input::Scalar(0.0)];
            terms.push(Term { op: op("exclusions"), atoms, reals, rest });
        }
    }

    fn sum(&self, terms: Vec<Term>, is_direct: bool, has_waves: bool, is_left: bool) -> Terms {
        let has_lattice = self.edges.has_lattice();
        let slabs = self.edges.slabs();
        // Given waves and meshes are those of the given cell.
        let height = match (self.given.slab_height, has_waves) {
            (true, _) => Height::Argument,
            (_, true) => Height::Cell,
            _ => Height::Chosen,
        };
        // Of given heights the gap is looked at where it can be.
        let by_slabs = slabs.is_some() && (height == Height::Chosen || self.given.readable);
        let is_stated = self.given.accuracy && self.given.readable;
        // Sums over all pairs have a list with exclusions, or where they are not of charges.
        let has_list = self.given.exclusions || !self.request.law.is_coulomb();
        let is_searched = has_list && !self.given.list && !self.edges.is_lattice();
        let upright = slabs.filter(|_| height != Height::Cell);
        Terms {
            terms,
            cells: Cells { no_lattice: self.edges.no_lattice(), upright, height },
            chooses: (has_lattice && (is_left || is_stated || by_slabs)) || is_searched,
            by_extents: by_slabs || is_searched,
            is_direct,
            refuses_slabs: self.edges.refuses_slabs(),
        }
    }

    /// Pairs within a cutoff, or the long-range part of a sum over a lattice, in the cells that are given.
    fn part(&self) -> Result<Terms> {
        let (sum, given, law) = (self.request.sum, self.given, &self.request.law);
        if given.widths {
            return Err(Error::argument("widths", "None with a part of a sum, or a sum over pairs", "it"));
        }
        if given.exclusions && sum == Sum::Shifted {
            return Err(Error::argument("exclusions", "None with shifted forces", "it"));
        }
        let is_open = given.unread_axes.then_some(false);
        let is_open = is_open.unwrap_or_else(|| !self.edges.axes.as_flattened().contains(&true));
        let reach = if given.cutoff { Input::Cutoff } else { Input::Scalar(UNBOUNDED) };
        // Damped charges of open systems are summed over all pairs.
        let is_searched = sum == Sum::Pairs && is_open && !given.list && !given.cutoff;
        let of_pairs = matches!(sum, Sum::RealSpace | Sum::Pairs | Sum::Shifted);
        if of_pairs && !given.list && !given.cutoff && !is_searched {
            let why =
                if sum == Sum::Pairs { "there are periodic axes" } else { "no neighbour list is given" };
            return Err(Error::argument("cutoff", format!("the radius of the sum, as {why}"), "None"));
        }
        let search = if is_searched { Input::Chosen(Parameter::Cutoff) } else { Input::Cutoff };
        let search = (!given.list).then(|| Box::new(search));
        let near = Input::Pairs(Pairs { search, without: given.exclusions });
        let (name, rest, [real, reciprocal]) = match sum {
            Sum::ReciprocalSpace if given.waves => ("reciprocal_space", vec![Input::Waves], [0.0, 1.0]),
            Sum::ReciprocalSpace => {
                ("reciprocal_space", vec![Input::WavesWithin(Parameter::KCutoff, true)], [0.0, 1.0])
            }
            Sum::MeshReciprocalSpace => ("mesh_reciprocal_space", vec![Input::Mesh(true)], [0.0, 1.0]),
            _ => ("real_space", vec![near, reach.clone()], [1.0, 0.0]),
        };
        let split = if sum == Sum::Pairs && !given.alpha {
            Input::Number(unsplit(self.given.narrow))
        } else {
            Input::Argument(Parameter::Alpha)
        };
        let (atoms, reals) = (Self::given_atoms(), [vec![split], law.reals()].concat());
        let op = match sum {
            Sum::Shifted => "damped_shifted_force".to_string(),
            _ => format!("{}_{name}", law.prefix()),
        };
        let mut terms = vec![Term { op, atoms: atoms.clone(), reals: reals.clone(), rest }];
        if given.exclusions {
            let reach = if of_pairs { reach } else { Input::Scalar(UNBOUNDED) };
            let rest = vec![Input::Excluded, reach, Input::Scalar(real), Input::Scalar(reciprocal)];
            terms.push(Term { op: format!("{}_exclusions", law.prefix()), atoms, reals, rest });
        }
        let cells = Cells { no_lattice: Rows::Known(vec![false]), upright: None, height: Height::Cell };
        let (chooses, by_extents) = (is_searched, is_searched);
        Ok(Terms { terms, cells, chooses, by_extents, is_direct: false, refuses_slabs: false })
    }

    /// Waves of crystals and all pairs of open systems, of Gaussian charges: sums over waves have the energy of each charge
    /// with itself, which sums over pairs lack.
    fn latent(&self, with_selves: bool) -> Terms {
        let (of_pairs, of_waves) = if with_selves { (-1.0, 0.0) } else { (0.0, 1.0) };
        let own = self.masked(of_pairs, Input::Number(of_waves));
        let waves =
            if self.given.waves { Input::Waves } else { Input::WavesWithin(Parameter::KCutoff, true) };
        let pairs = Input::AllPairs(self.edges.no_lattice());
        let (op, atoms) = ("latent_summation".to_string(), Atoms { lattice: true, charged: None });
        let rest = vec![pairs, Input::Scalar(UNBOUNDED), waves];
        let terms = vec![Term { op, atoms, reals: vec![Input::Argument(Parameter::Alpha), own], rest }];
        let cells = Cells { no_lattice: self.edges.no_lattice(), upright: None, height: Height::Cell };
        Terms { terms, cells, chooses: false, by_extents: false, is_direct: false, refuses_slabs: false }
    }

    /// All pairs and waves in one pass.
    fn direct(self) -> Result<Terms> {
        let given = self.given;
        for (is_given, name) in
            [(given.exclusions, "exclusions"), (given.widths, "widths"), (given.list, "neighbors")]
        {
            if is_given {
                return Err(Error::argument(name, "None with `method=\"direct\"`", "it"));
            }
        }
        let mut terms = vec![];
        let is_left = !(given.alpha && given.cutoff && given.waves) || given.readable;
        if self.edges.has_lattice() {
            let own = |is_given: bool, parameter| {
                if is_given { Input::Argument(parameter) } else { Input::Chosen(parameter) }
            };
            let split = self.masked(1.0, own(given.alpha, Parameter::Alpha));
            let reach = self.masked(OPEN_REACH, own(given.cutoff, Parameter::Cutoff));
            let lines = vec![Input::Lines(given.waves)];
            let op = "ewald_direct".to_string();
            terms.push(Term { op, atoms: self.lattice(), reals: vec![split, reach], rest: lines });
            self.slabs(&mut terms);
        }
        self.whole(&mut terms, None);
        Ok(self.sum(terms, true, given.waves, is_left))
    }

    /// Over a list, and waves or a mesh.
    fn listed(self) -> Terms {
        let (given, law) = (self.given, &self.request.law);
        let on_mesh = self.request.sum == Sum::Mesh;
        let has_waves = if on_mesh { given.mesh } else { given.waves };
        let is_shared = given.cutoff && !given.cutoffs;
        // A search for systems that are no lattice ends at once: they have no list.
        let is_known = given.list || (is_shared && self.edges.is_lattice());
        let is_left = !given.alpha || !is_known || !(has_waves || (!on_mesh && given.k_cutoff));
        let reach = if is_shared && is_known { Input::Cutoff } else { Input::Scalar(UNBOUNDED) };
        let search = if is_known { Input::Cutoff } else { Input::Chosen(Parameter::Cutoff) };
        let search = (!given.list).then(|| Box::new(search));
        let near = Input::Pairs(Pairs { search, without: given.exclusions });
        let prefix = law.prefix();
        let alpha =
            if given.alpha { Input::Argument(Parameter::Alpha) } else { Input::Chosen(Parameter::Alpha) };
        let reals = [vec![self.masked(1.0, alpha)], law.reals()].concat();
        let mut terms = vec![];
        if self.edges.has_lattice() {
            let far = match (on_mesh, has_waves) {
                (true, is_given) => Input::Mesh(is_given && !is_left),
                (_, true) => Input::Waves,
                _ => Input::WavesWithin(Parameter::KCutoff, given.k_cutoff && !is_left),
            };
            let op = format!("{prefix}_{}summation", if on_mesh { "mesh_" } else { "" });
            let rest = vec![near.clone(), reach.clone(), far];
            terms.push(Term { op, atoms: self.lattice(), reals: reals.clone(), rest });
            self.slabs(&mut terms);
        }
        if law.is_coulomb() {
            self.whole(&mut terms, Some((near, reach.clone())));
        } else if self.edges.open().is_some() {
            self.open_power(&mut terms, near);
        }
        if given.exclusions && self.edges.has_lattice() {
            let rest = vec![Input::Excluded, reach, Input::Scalar(1.0), Input::Scalar(1.0)];
            terms.push(Term { op: format!("{prefix}_exclusions"), atoms: self.lattice(), reals, rest });
        }
        if given.widths {
            let search = (!given.list).then(|| Box::new(Input::ReachOfWidths));
            let far = if given.list { Input::Scalar(UNBOUNDED) } else { Input::ReachOfWidths };
            let pairs = Input::Pairs(Pairs { search, without: given.exclusions });
            let mut of_widths = |op: &str, rest| {
                terms.push(Term { op: op.to_string(), atoms: Self::given_atoms(), reals: vec![], rest });
            };
            let background = Input::Numbers(self.edges.factors(Edge::Crystal));
            of_widths("gaussian_correction", vec![Input::Widths, background, pairs, far.clone()]);
            if given.exclusions {
                of_widths("gaussian_exclusions", vec![Input::Widths, Input::Excluded, far]);
            }
        }
        self.sum(terms, false, has_waves, is_left)
    }
}
