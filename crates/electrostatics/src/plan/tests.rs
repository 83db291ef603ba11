use super::*;
use madelung_core::Error;

/// The terms of a request, each as a line: its op, the factors of its charges, and its inputs.
fn lines(request: &Request) -> Vec<String> {
    let Plan::Sum(sum) = compose(request).unwrap() else { panic!("{request:?} asks, or has parts") };
    let line = |term: &Term| {
        let charged = term.atoms.charged.as_ref().map(|x| format!(" {}", rows(x))).unwrap_or_default();
        let inputs: Vec<String> = term.reals.iter().chain(&term.rest).map(word).collect();
        format!("{}{charged}: {}", term.op, inputs.join(", "))
    };
    sum.terms.iter().map(line).collect()
}

fn word(input: &Input) -> String {
    let name = |of: &Parameter| format!("{of:?}").to_lowercase();
    match input {
        Input::Argument(of) => format!("given {}", name(of)),
        Input::Chosen(of) => format!("chosen {}", name(of)),
        Input::Masked(x, _, other) => format!("{} or {x}", word(other)),
        Input::Number(x) | Input::Scalar(x) => format!("{x:e}"),
        Input::OfLaw(name) => name.clone(),
        Input::Cutoff => "cutoff".into(),
        Input::Pairs(Pairs { search, without }) => {
            let from = search.as_ref().map_or("list".into(), |x| format!("search by {}", word(x)));
            format!("{from}{}", if *without { " without" } else { "" })
        }
        Input::AllPairs(of) => format!("all pairs {}", rows(of)),
        Input::Excluded => "excluded".into(),
        Input::Waves => "waves".into(),
        Input::WavesWithin(_, is_given) => format!("waves within {is_given}"),
        Input::Lines(is_given) => format!("lines {is_given}"),
        Input::Mesh(is_given) => format!("mesh {is_given}"),
        Input::Integers(x) => rows(x),
        Input::Widths => "widths".into(),
        Input::ReachOfWidths => "reach of widths".into(),
        Input::Numbers(x) => rows(x),
    }
}

fn rows<T: std::fmt::Debug>(of: &Rows<T>) -> String {
    match of {
        Rows::Known(rows) => format!("{rows:?}"),
        Rows::Of(edge) => format!("{edge:?}").to_lowercase(),
    }
}

const CRYSTAL: [bool; 3] = [true; 3];
const SLAB: [bool; 3] = [true, true, false];
const WIRE: [bool; 3] = [false, true, false];
const OPEN: [bool; 3] = [false; 3];

fn whole() -> Given {
    Given { cell: true, alpha: true, cutoff: true, waves: true, list: true, ..Given::default() }
}

fn of(pbc: &[[bool; 3]], given: Given) -> Request {
    let slabs = pbc.contains(&SLAB);
    Request { pbc: Some(pbc.to_vec()), given: Given { slabs, ..given }, ..Request::default() }
}

fn terms(request: &Request) -> Terms {
    match compose(request).unwrap() {
        Plan::Sum(sum) => sum,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_crystal_is_one_term() {
    assert_eq!(lines(&of(&[CRYSTAL], whole())), ["ewald_summation: given alpha, list, cutoff, waves"]);
    let open = Given { cell: true, ..Given::default() };
    assert_eq!(
        lines(&of(&[CRYSTAL], open)),
        ["ewald_summation: chosen alpha, search by chosen cutoff, 1e30, waves within false"]
    );
    let of_mesh = Request { sum: Sum::Mesh, ..of(&[CRYSTAL], Given { mesh: true, waves: false, ..whole() }) };
    assert_eq!(lines(&of_mesh), ["ewald_mesh_summation: given alpha, list, cutoff, mesh true"]);
    let direct = Request { method: Some(Method::Direct), ..of(&[CRYSTAL], Given { list: false, ..whole() }) };
    assert_eq!(lines(&direct), ["ewald_direct: given alpha, given cutoff, lines true"]);
    let powers = Request { law: Law::Power(6), ..of(&[CRYSTAL], whole()) };
    assert_eq!(lines(&powers), ["inverse_power_summation: given alpha, 6e0, list, cutoff, waves"]);
}

#[test]
fn parts_and_sums_over_pairs_take_systems_as_they_come() {
    let part = |sum, given| Request { sum, ..of(&[CRYSTAL, SLAB, OPEN], given) };
    let given = Given { exclusions: true, list: false, ..whole() };
    assert_eq!(
        lines(&part(Sum::RealSpace, given)),
        [
            "ewald_real_space: given alpha, search by cutoff without, cutoff",
            "ewald_exclusions: given alpha, excluded, cutoff, 1e0, 0e0",
        ]
    );
    assert_eq!(
        lines(&Request { law: Law::Power(6), ..part(Sum::ReciprocalSpace, given) }),
        [
            "inverse_power_reciprocal_space: given alpha, 6e0, waves",
            "inverse_power_exclusions: given alpha, 6e0, excluded, 1e30, 0e0, 1e0",
        ]
    );
    let within = Given { waves: false, k_cutoff: true, ..whole() };
    assert_eq!(
        lines(&part(Sum::ReciprocalSpace, within)),
        ["ewald_reciprocal_space: given alpha, waves within true"]
    );
    assert_eq!(
        lines(&part(Sum::MeshReciprocalSpace, Given { mesh: true, ..whole() })),
        ["ewald_mesh_reciprocal_space: given alpha, mesh true"]
    );
    assert_eq!(lines(&part(Sum::Shifted, whole())), ["damped_shifted_force: given alpha, list, cutoff"]);
    let undamped = Given { alpha: false, ..whole() };
    assert_eq!(lines(&part(Sum::Pairs, undamped)), ["ewald_real_space: 1e-30, list, cutoff"]);
    // Damped charges of open systems: all pairs, in a list that is searched for.
    let open = Request { sum: Sum::Pairs, ..of(&[OPEN], Given { alpha: true, ..Given::default() }) };
    assert_eq!(lines(&open), ["ewald_real_space: given alpha, search by chosen cutoff, 1e30"]);
    assert!(terms(&open).chooses && terms(&open).by_extents);
    assert!(compose(&Request { sum: Sum::RealSpace, ..open }).is_err());
}

#[test]
fn latent_charges_are_one_term_of_waves_and_all_pairs() {
    let given = Given { cell: true, alpha: true, k_cutoff: true, ..Given::default() };
    let latent =
        |with_selves, given| Request { sum: Sum::Latent { with_selves }, ..of(&[CRYSTAL, OPEN], given) };
    assert_eq!(
        lines(&latent(false, given)),
        ["latent_summation: given alpha, 1e0 or 0, all pairs [false, true], 1e30, waves within true"]
    );
    assert_eq!(
        lines(&latent(true, Given { waves: true, ..given })),
        ["latent_summation: given alpha, 0e0 or -1, all pairs [false, true], 1e30, waves"]
    );
    let crystal = Request { pbc: None, ..latent(false, given) };
    assert_eq!(
        lines(&crystal),
        ["latent_summation: given alpha, 1e0, all pairs [false], 1e30, waves within true"]
    );
    assert!(!terms(&crystal).chooses);
}

#[test]
fn systems_that_are_no_lattice_have_terms_of_their_own() {
    let mixed = of(&[CRYSTAL, SLAB, WIRE, OPEN], Given { cell: true, cutoff: true, ..Given::default() });
    assert_eq!(
        lines(&mixed),
        [
            "ewald_summation [1.0, 1.0, 0.0, 0.0]: chosen alpha or 1, search by chosen cutoff, 1e30, waves within false",
            "slab_correction [1.0, 1.0, 0.0, 0.0]: [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]",
            "wire_summation: [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]]",
            "open_summation: [[0], [0], [0], [1]]",
        ]
    );
    // All pairs of these count, whatever list is given and whether values can be read: nothing is chosen or searched for.
    for given in [Given::default(), Given { list: true, cutoff: true, ..Given::default() }] {
        let open = Request { given, ..Request::default() };
        assert_eq!(lines(&open), ["open_summation: [[1]]"]);
        assert!(!terms(&open).chooses);
    }
    assert_eq!(
        lines(&of(&[WIRE], Given { cell: true, ..Given::default() })),
        ["wire_summation: [[0, 1, 0]]"]
    );
}

#[test]
fn axes_without_values_have_the_terms_of_all_systems_that_are_permitted() {
    let given = Given { unread_axes: true, ..whole() };
    let request = |given| Request { given, ..Request::default() };
    let slabs = lines(&request(Given { slabs: true, slab_height: true, ..given }));
    assert_eq!(
        slabs,
        [
            "ewald_summation lattice: given alpha or 1, list, cutoff, waves",
            "slab_correction lattice: slab",
            "wire_summation: wire",
            "open_summation: open",
        ]
    );
    let none = terms(&request(given));
    assert!(none.refuses_slabs && !none.chooses && none.cells.upright.is_none());
    assert_eq!(none.terms.len(), 3);
    assert!(!terms(&of(&[CRYSTAL, OPEN], whole())).refuses_slabs);
    // Without a cell nobody can say whether there are axes.
    for (given, name) in [(Given { cell: false, ..given }, "cell"), (given, "pbc")] {
        let error = compose(&Request { law: Law::Power(6), ..request(given) }).unwrap_err();
        assert!(matches!(error, Error::Argument { argument, .. } if argument == name));
    }
}

#[test]
fn exclusions_are_terms_of_lattices_and_lists_of_others() {
    let given = Given { exclusions: true, ..whole() };
    assert_eq!(
        lines(&of(&[CRYSTAL, OPEN], given)),
        [
            "ewald_summation [1.0, 0.0]: given alpha or 1, list without, cutoff, waves",
            "open_summation_without [0.0, 1.0]: [[0], [1]], list without, excluded, cutoff, 1e0, 1e0",
            "ewald_exclusions [1.0, 0.0]: given alpha or 1, excluded, cutoff, 1e0, 1e0",
        ]
    );
    // A list is searched for, as far as open systems reach.
    let searched = of(&[OPEN], Given { cell: true, exclusions: true, ..Given::default() });
    assert!(terms(&searched).chooses && terms(&searched).by_extents);
}

#[test]
fn widths_have_a_list_of_their_own() {
    let given = Given { widths: true, list: false, ..whole() };
    assert_eq!(
        lines(&of(&[CRYSTAL], given)),
        [
            "ewald_summation: given alpha, search by cutoff, cutoff, waves",
            "gaussian_correction: widths, [1.0], search by reach of widths, reach of widths",
        ]
    );
    let excluding = Given { widths: true, exclusions: true, ..whole() };
    assert_eq!(
        lines(&of(&[CRYSTAL], excluding))[2..],
        [
            "gaussian_correction: widths, [1.0], list without, 1e30",
            "gaussian_exclusions: widths, excluded, 1e30",
        ]
    );
}

#[test]
fn what_is_given_is_not_chosen_and_the_rest_is() {
    assert!(!terms(&of(&[CRYSTAL], whole())).chooses);
    // A stated accuracy is compared with what is given, where values can be read.
    let stated = Given { accuracy: true, ..whole() };
    assert!(!terms(&of(&[CRYSTAL], stated)).chooses);
    assert!(terms(&of(&[CRYSTAL], Given { readable: true, ..stated })).chooses);
    for given in [
        Given { alpha: false, ..whole() },
        Given { waves: false, ..whole() },
        Given { list: false, cutoff: false, ..whole() },
    ] {
        assert!(terms(&of(&[CRYSTAL], given)).chooses, "{given:?}");
    }
    // A raw list is what is summed.
    assert!(!terms(&of(&[CRYSTAL], Given { cutoff: false, ..whole() })).chooses);
}

#[test]
fn slabs_choose_a_height_unless_it_is_given() {
    let free = Given { waves: false, k_cutoff: true, ..whole() };
    let chosen = terms(&of(&[SLAB], free));
    assert_eq!((chosen.cells.height, chosen.by_extents, chosen.chooses), (Height::Chosen, true, true));
    let argument = terms(&of(&[SLAB], Given { slab_height: true, ..free }));
    assert_eq!((argument.cells.height, argument.chooses), (Height::Argument, false));
    // Waves belong to the cell that is given, whose gap is looked at; where it cannot be, the height is stated.
    let seen = terms(&of(&[SLAB], Given { readable: true, ..whole() }));
    assert_eq!((seen.cells.height, seen.cells.upright.is_none()), (Height::Cell, true));
    assert!(seen.chooses && seen.by_extents);
    let error = compose(&of(&[SLAB], whole())).unwrap_err().to_string();
    assert!(error.contains("`slab_height`: expected the height of the slabs' cell"), "{error}");
}

#[test]
fn permission_for_slabs_says_nothing_without_them() {
    let given = Given { slabs: true, ..whole() };
    let request = Request { given, ..Request::default() };
    assert_eq!(lines(&request), lines(&of(&[CRYSTAL], whole())));
}

#[test]
fn kinds_part_a_batch() {
    let given = Given { cell: true, readable: true, ..Given::default() };
    let asked = of(&[CRYSTAL, CRYSTAL, OPEN], given);
    assert_eq!(compose(&asked).unwrap(), Plan::Ask);
    let parted = Request { kinds: Some(vec![Kind::List, Kind::More, Kind::List]), ..asked.clone() };
    let parts = vec![(Method::List, vec![0, 2]), (Method::Direct, vec![1])];
    assert_eq!(compose(&parted).unwrap(), Plan::Parts(parts));
    let alike = Request { kinds: Some(vec![Kind::Nearest; 3]), ..asked };
    assert_eq!(
        lines(&alike)[0],
        "ewald_direct [1.0, 1.0, 0.0]: chosen alpha or 1, chosen cutoff or 0.25, lines false"
    );
}

#[test]
fn contradictions_name_the_argument() {
    let refused = |request: &Request| match compose(request) {
        Err(madelung_core::Error::Argument { argument, .. }) => argument,
        other => panic!("{other:?}"),
    };
    let crystal = |given| of(&[CRYSTAL], given);
    assert_eq!(refused(&Request { given: Given::default(), ..crystal(whole()) }), "cell");
    assert_eq!(
        refused(&Request { pbc: Some(vec![SLAB]), ..Request { given: whole(), ..Request::default() } }),
        "pbc"
    );
    assert_eq!(refused(&Request { law: Law::Power(7), ..crystal(whole()) }), "exponent");
    assert_eq!(refused(&Request { law: Law::Power(6), ..of(&[SLAB], whole()) }), "exponent");
    assert_eq!(refused(&crystal(Given { k_cutoff: true, ..whole() })), "k_cutoff");
    assert_eq!(refused(&crystal(Given { alpha: false, cutoff: false, ..whole() })), "cutoff");
    assert_eq!(refused(&Request { method: Some(Method::Direct), ..crystal(whole()) }), "neighbors");
    assert_eq!(refused(&Request { law: Law::Power(6), ..of(&[OPEN], whole()) }), "neighbors");
    let latent = |of: Request| Request { sum: Sum::Latent { with_selves: false }, ..of };
    assert_eq!(refused(&latent(of(&[CRYSTAL, SLAB], whole()))), "pbc");
    assert_eq!(refused(&latent(crystal(Given { widths: true, ..whole() }))), "widths");
    assert_eq!(refused(&latent(crystal(Given { exclusions: true, ..whole() }))), "exclusions");
}

/// A law of the caller's own, of crystals.
fn own(given: Given) -> Request {
    let (name, prefix, parameters) = ("yukawa".into(), "yukawa_1".into(), vec!["kappa".into()]);
    Request { law: Law::Own { name, prefix, parameters }, ..of(&[CRYSTAL], given) }
}

#[test]
fn a_law_of_ones_own_has_its_ops_and_parameters() {
    assert_eq!(lines(&own(whole())), ["yukawa_1_summation: given alpha, kappa, list, cutoff, waves"]);
    let given = Given { mesh: true, waves: false, list: false, exclusions: true, ..whole() };
    assert_eq!(
        lines(&Request { sum: Sum::Mesh, ..own(given) }),
        [
            "yukawa_1_mesh_summation: given alpha, kappa, search by cutoff without, cutoff, mesh true",
            "yukawa_1_exclusions: given alpha, kappa, excluded, cutoff, 1e0, 1e0",
        ]
    );
    // Cutoffs of systems, which searches go by, are those that are given.
    let request = own(Given { cutoffs: true, list: false, ..whole() });
    let given = Prescription { alpha: Some(vec![1.0]), cutoff: Some(vec![4.0]), ..Prescription::default() };
    let systems = Systems { cells: &CELLS[..1], atoms: &[100], extents: &[], crowding: &[] };
    assert_eq!(numbers(&request, &terms(&request), systems, &given).unwrap().cutoff, [4.0]);
}

#[test]
fn a_law_of_ones_own_says_what_it_lacks() {
    let refused = |request: &Request| match compose(request) {
        Err(madelung_core::Error::Argument { argument, expected, .. }) => format!("{argument}: {expected}"),
        other => panic!("{other:?}"),
    };
    for (given, name) in [
        (Given { alpha: false, ..whole() }, "alpha"),
        (Given { cutoff: false, list: false, ..whole() }, "cutoff"),
        (Given { waves: false, ..whole() }, "k_cutoff"),
        (Given { accuracy: true, ..whole() }, "accuracy"),
        (Given { widths: true, ..whole() }, "law: None with `widths`"),
        (Given { unread_axes: true, ..whole() }, "pbc"),
    ] {
        assert!(refused(&own(given)).starts_with(name), "{given:?}");
    }
    let on_mesh = Request { sum: Sum::Mesh, ..own(whole()) };
    assert!(refused(&on_mesh).starts_with("mesh_dimensions"));
    let direct = Request { method: Some(Method::Direct), ..own(Given { list: false, ..whole() }) };
    assert_eq!(refused(&direct), "law: None with `method=\"direct\"`");
    for (axes, what) in [(SLAB, "slabs and wires"), (WIRE, "slabs and wires"), (OPEN, "open systems")] {
        let request = Request { law: own(whole()).law, ..of(&[CRYSTAL, axes], whole()) };
        assert_eq!(refused(&request), format!("law: None with {what}"));
    }
}

/// A cube and an open system beside it.
const CELLS: [[[f64; 3]; 3]; 2] = [[[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 10.0]], [[0.0; 3]; 3]];

#[test]
fn numbers_keep_what_is_given() {
    let request = of(&[CRYSTAL, OPEN], Given { cell: true, cutoff: true, ..Given::default() });
    let systems = Systems { cells: &CELLS, atoms: &[100, 7], extents: &[], crowding: &[] };
    let given = Prescription { cutoff: Some(vec![4.5]), ..Prescription::default() };
    let found = numbers(&request, &terms(&request), systems, &given).unwrap();
    assert_eq!((found.cutoff[0], found.k_cutoff[1], found.alpha[1]), (4.5, 0.0, 1.0));
    // No pair of an open system is searched for.
    assert!(found.cutoff[1] > 0.0 && found.cutoff[1] < 1e-4);
    assert!(found.errors[0] < 1e-6 && found.errors[0] > 1e-7);
    // α and a cutoff that leave 1e-2: the waves that are open are chosen for about as much, not refused.
    let given = Prescription { alpha: Some(vec![0.5]), cutoff: Some(vec![4.5]), ..Prescription::default() };
    let found = numbers(&request, &terms(&request), systems, &given).unwrap();
    assert!(found.errors[0] > 1e-3 && found.errors[0] < 2e-2, "{found:?}");
    let stated = Prescription { accuracy: Some(1e-6), ..given };
    assert!(numbers(&request, &terms(&request), systems, &stated).is_err());
}

#[test]
fn heights_of_slabs_do_not_depend_on_their_cell() {
    let request = of(&[SLAB], Given { cell: true, ..Given::default() });
    let found = [60.0, 8.0, 0.0].map(|height| {
        let cell = [[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, height]];
        let systems = Systems { cells: &[cell], atoms: &[64], extents: &[6.0], crowding: &[] };
        numbers(&request, &terms(&request), systems, &Prescription::default()).unwrap()
    });
    assert!(found[0] == found[1] && found[1] == found[2]);
    // The thickness, and 2.05 periods for 1e-6.
    assert!(found[0].heights[0] >= 26.5 && found[0].heights[0] < 28.0, "{:?}", found[0].heights);
    assert!(found[0].cutoff[0] <= found[0].heights[0] - 6.0);
}

#[test]
fn extents_are_thicknesses_and_diameters() {
    let positions = [[0.0, 0.0, 1.0], [5.0, 0.0, 4.0], [0.0, 0.0, 0.0], [3.0, 4.0, 0.0]];
    let cells = [[[10.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0; 3]], [[0.0; 3]; 3]];
    let found = extents(&positions, &[2, 2], &cells, &[SLAB, OPEN]).unwrap();
    assert!(found[0] >= 3.0 && found[0] < 3.1 && found[1] >= 5.005 && found[1] < 5.2, "{found:?}");
    assert_eq!(extents(&[], &[0, 0], &cells, &[SLAB, OPEN]).unwrap().len(), 2);
    let error = extents(&[], &[0, 0, 0], &cells, &[SLAB, OPEN]).unwrap_err().to_string();
    assert!(error.contains("`pbc`: expected one row, or one for each of 3 systems, got 2 rows"), "{error}");
}
