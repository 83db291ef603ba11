//! The stand-in libraries: made once for all processes of a user, and loaded.
#![expect(unsafe_code, reason = "libraries are loaded, and their functions called")]

use crate::Order;
use crate::compile::compile;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The texts that the libraries are made of.
const TEXTS: [(&str, &str); 9] = [
    ("host.cuh", include_str!("../host.cuh")),
    ("blocks.cuh", include_str!("../blocks.cuh")),
    ("races.cuh", include_str!("../races.cuh")),
    ("log.hpp", include_str!("../log.hpp")),
    ("cuda.hpp", include_str!("../cuda.hpp")),
    ("cuda_launch.hpp", include_str!("../cuda_launch.hpp")),
    ("cuda.cpp", include_str!("../cuda.cpp")),
    ("nvrtc.cpp", include_str!("../nvrtc.cpp")),
    ("cufft.cpp", include_str!("../cufft.cpp")),
];

/// Libraries under the names by which they are looked for first, and the other ones.
const LIBRARIES: [(&str, &str, &[&str]); 3] = [
    ("cuda.cpp", "libcuda.so", &["libcuda.so.1"]),
    ("nvrtc.cpp", "libnvrtc.so.12", &["libnvrtc.so"]),
    ("cufft.cpp", "libcufft.so.11", &["libcufft.so"]),
];

/// The folder of the stand-in libraries, for the `LD_LIBRARY_PATH` of other processes.
///
/// # Panics
/// If there is no C++ compiler, or no temporary folder to write to.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // The libraries take seconds to compile, and many test programs use them: kept by the hash of their sources.
        let mut hash = DefaultHasher::new();
        (TEXTS, std::env::var_os("CXX"), std::env::var_os("USER")).hash(&mut hash);
        let folder = std::env::temp_dir().join(format!("madelung-stand-in-{:016x}", hash.finish()));
        if !folder.exists() {
            make(&folder);
        }
        let owner = |path: &Path| std::fs::metadata(path).expect("a folder").uid();
        assert_eq!(
            owner(&folder),
            owner(Path::new("/proc/self")),
            "{} belongs to somebody else, and what is in it would run here",
            folder.display()
        );
        folder
    })
}

/// Makes the libraries in a folder of their own, which is then renamed, so that processes never see half of them.
fn make(folder: &Path) {
    let parent = folder.parent().expect("a folder in another one");
    let made = tempfile::tempdir_in(parent).expect("a temporary folder");
    for (name, text) in TEXTS {
        std::fs::write(made.path().join(name), text).expect("a file in a temporary folder");
    }
    for (source, name, others) in LIBRARIES {
        let soname = format!("-Wl,-soname,{name}");
        compile(&made.path().join(source), &made.path().join(name), &[&soname, "-ldl", "-pthread"]);
        for other in others {
            std::os::unix::fs::symlink(name, made.path().join(other)).expect("a link in a temporary folder");
        }
    }
    let made = made.keep();
    if std::fs::rename(&made, folder).is_err() {
        // Another process was faster.
        assert!(folder.exists(), "{} cannot be written", folder.display());
        std::fs::remove_dir_all(made).expect("a folder of our own");
    }
}

/// The driver, NVRTC and cuFFT, in the order of `LIBRARIES`.
fn libraries() -> &'static [Library; 3] {
    static LOADED: OnceLock<[Library; 3]> = OnceLock::new();
    LOADED.get_or_init(|| {
        LIBRARIES.map(|(_, name, _)| {
            // SAFETY: the libraries have no initialisers but those of the C++ runtime.
            unsafe { Library::new(folder().join(name)) }.expect("a library that was made")
        })
    })
}

/// Whether the machine's own GPU is tested, without stand-ins: with `MADELUNG_TEST_DEVICE=cuda`. Then calls are not
/// counted, and settings of the stand-ins have no effect.
pub fn is_real() -> bool {
    static REAL: OnceLock<bool> = OnceLock::new();
    *REAL.get_or_init(|| std::env::var_os("MADELUNG_TEST_DEVICE").is_some_and(|device| device == "cuda"))
}

/// Loads the stand-ins as the driver, NVRTC and cuFFT of this process; or leaves the real ones ([`is_real`]).
///
/// # Panics
/// If they cannot be made.
pub fn install() {
    if !is_real() {
        libraries();
    }
}

/// The number of calls of a function of the libraries: `cuMemAlloc_v2`, say.
///
/// # Panics
/// If the libraries cannot be made.
pub fn calls(name: &str) -> u64 {
    if is_real() {
        return 0;
    }
    let library = match name {
        _ if name.starts_with("nvrtc") => 1,
        _ if name.starts_with("cufft") => 2,
        _ => 0,
    };
    let name = CString::new(name).expect("a name without zeros");
    // SAFETY: the function has this signature in each of the libraries, and the name ends with a zero.
    unsafe {
        let count = libraries()[library].get::<unsafe extern "C" fn(*const c_char) -> u64>("stand_in_calls");
        count.expect("a function of the library")(name.as_ptr())
    }
}

/// The order in which launches run from here on.
///
/// # Panics
/// If the libraries cannot be made.
pub fn set_order(order: Order) {
    if is_real() {
        return;
    }
    let (kind, seed) = order.as_cxx();
    // SAFETY: the function has this signature.
    unsafe {
        let set = libraries()[0].get::<unsafe extern "C" fn(c_int, u64)>("stand_in_order");
        set.expect("a function of the library")(kind, seed);
    }
}

/// Sets the bytes of memory of each device from here on.
///
/// # Panics
/// If the libraries cannot be made.
pub fn set_memory(bytes: usize) {
    if is_real() {
        return;
    }
    // SAFETY: the function has this signature.
    unsafe {
        let set = libraries()[0].get::<unsafe extern "C" fn(usize)>("stand_in_memory");
        set.expect("a function of the library")(bytes);
    }
}

/// The message of the last kernel that failed.
///
/// # Panics
/// If the libraries cannot be made.
pub fn message() -> String {
    // SAFETY: the function has this signature, and its text ends with a zero.
    unsafe {
        let message = libraries()[0].get::<unsafe extern "C" fn() -> *const c_char>("stand_in_message");
        CStr::from_ptr(message.expect("a function of the library")()).to_string_lossy().into_owned()
    }
}

/// Runs the tests of this program whose names begin with these once more, in another process, in which launches fail
/// whose threads race. On a GPU, and in that process, there is nothing to do.
///
/// # Panics
/// If one of them fails, with its output.
pub fn look_for_races(tests: &[&str]) {
    if is_real() || std::env::var_os("STAND_IN_RACES").is_some() {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let mut again = std::process::Command::new(program);
    let done = again.args(tests).env("STAND_IN_RACES", "1").output().expect("a process");
    let [out, err] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(done.status.success(), "{out}\n{err}");
}
