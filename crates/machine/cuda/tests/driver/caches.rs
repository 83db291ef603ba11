//! Programs on disk: found again, broken, cut, not writable, and requested by two processes at once.

use crate::support::{finish, start};
use crate::{device, runs};
use madelung_stand_in::calls;
use std::fs;
use std::path::{Path, PathBuf};

/// The process that the tests below start: runs a program and compares the number of compilations with the expected
/// one.
#[test]
#[ignore = "a part of the tests below, which start it"]
fn part() {
    let Some(expected) = std::env::var_os("MADELUNG_TEST_COMPILES") else { return };
    runs(device(0));
    runs(device(0));
    let compiled = calls("nvrtcCompileProgram").to_string();
    assert!(expected == "any" || expected == *compiled, "compiled {compiled} times");
}

fn run(cache: &Path, compiles: &str) {
    finish(start("caches::part", cache, &[("MADELUNG_TEST_COMPILES", compiles)]));
}

fn files(cache: &Path) -> Vec<PathBuf> {
    fs::read_dir(cache).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

#[test]
fn programs_are_found_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = folder.path().join("made/when/needed");
    run(&cache, "1");
    run(&cache, "0");
    let [file] = &files(&cache)[..] else { panic!("one file for one program") };
    let whole = fs::read(file).expect("a file");
    let mut broken = whole.clone();
    broken[whole.len() / 2] ^= 1;
    let cases = [&broken[..], &whole[..whole.len() / 2], &whole[..10], &[]];
    for case in cases {
        fs::write(file, case).expect("a file");
        run(&cache, "1");
        assert!(fs::read(file).expect("a file").len() > 40, "it is replaced");
        run(&cache, "0");
    }
}

/// A file that is whole, and of which the driver wants nothing.
#[test]
fn what_the_driver_refuses_is_compiled_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let on = |capability, compiles| {
        let environment = [("MADELUNG_TEST_COMPILES", compiles), ("STAND_IN_CAPABILITY", capability)];
        finish(start("caches::part", folder.path(), &environment));
    };
    on("80", "1");
    let [older] = &files(folder.path())[..] else { panic!("one file for one program") };
    let kept = fs::read(older).expect("a file");
    on("120", "1");
    for file in files(folder.path()) {
        fs::write(file, &kept).expect("a file");
    }
    on("120", "1");
    on("120", "0");
    on("80", "0");
}

#[test]
fn no_folder_can_be_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "no folder").expect("a file");
    run(&file.join("below"), "1");
    assert_eq!(files(folder.path()), [file]);
}

#[test]
fn two_processes_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let processes =
        [(); 2].map(|()| start("caches::part", folder.path(), &[("MADELUNG_TEST_COMPILES", "any")]));
    processes.into_iter().for_each(finish);
    assert_eq!(files(folder.path()).len(), 1, "nothing is left but the program");
    run(folder.path(), "0");
}
