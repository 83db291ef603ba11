//! Search for CUDA's libraries.
#![expect(unsafe_code, reason = "libraries are loaded, and functions looked up in them")]

use libloading::Library;
use madelung_core::{Error, Result};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Folders to look in for CUDA's libraries, before the system's own places: those of Python packages, say.
pub fn set_library_folders(folders: Vec<PathBuf>) {
    *FOLDERS.lock().unwrap_or_else(PoisonError::into_inner) = folders;
}

/// A library of CUDA's.
pub(crate) struct Wanted {
    /// The stem in `lib<stem>.so.<major>`.
    pub(crate) stem: &'static str,
    /// The major versions that are known, newest first, with the CUDA that each belongs to.
    pub(crate) majors: &'static [(u32, i32)],
    /// The package to install.
    pub(crate) install: &'static str,
}

impl Wanted {
    /// File names, in the order in which they are wanted: the newest that the driver's CUDA has, and then others.
    fn names(&self, cuda: i32) -> Vec<String> {
        let mut majors = self.majors.to_vec();
        majors.sort_by_key(|(major, of)| (*of > cuda, Reverse(*major)));
        majors.iter().map(|(major, _)| format!("lib{}.so.{major}", self.stem)).collect()
    }

    /// The library: one that the process has loaded, else from the folders given, CUDA_PATH and CUDA_HOME, the system's
    /// loader, and CUDA's default folders.
    ///
    /// # Errors
    /// The library is nowhere.
    pub(crate) fn load(&self, cuda: i32) -> Result<Library> {
        let names = self.names(cuda);
        if let Some(found) = names.iter().find_map(|name| loaded(name)) {
            return Ok(found);
        }
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for root in ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os) {
            folders.extend(["lib64", "lib"].map(|lib| Path::new(&root).join(lib)));
        }
        let installed = default_folders();
        let in_folders = |folders: &[PathBuf]| {
            folders
                .iter()
                .flat_map(|folder| names.iter().map(|name| folder.join(name)))
                .filter(|path| path.exists())
                .find_map(|path| open(&path))
        };
        let found = in_folders(&folders)
            .or_else(|| names.iter().find_map(|name| open(Path::new(name))))
            .or_else(|| in_folders(&installed));
        found.ok_or_else(|| {
            folders.extend(installed);
            let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            Error::Unsupported(format!(
                "CUDA: none of {} is loaded, known to the system or in the folders [{}]; install {}",
                names.join(", "),
                folders.join(", "),
                self.install
            ))
        })
    }
}

/// The default folders of CUDA's own installers, the newest first.
fn default_folders() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/usr/local") else { return vec![] };
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cuda")))
        .map(|path| path.join("lib64"))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

fn open(path: &Path) -> Option<Library> {
    // SAFETY: these are CUDA's libraries, which may be loaded at any time.
    unsafe { Library::new(path) }.ok()
}

/// A library that the process has already.
#[cfg(target_os = "linux")]
fn loaded(name: &str) -> Option<Library> {
    use libloading::os::unix::{Library as Unix, RTLD_LAZY};
    /// Finds and does not load.
    const RTLD_NOLOAD: i32 = 4;
    // SAFETY: nothing is loaded, and so no code runs.
    unsafe { Unix::open(Some(name), RTLD_LAZY | RTLD_NOLOAD) }.ok().map(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn loaded(_: &str) -> Option<Library> {
    None
}

/// Declares the functions of a library, which are looked up once and all together.
macro_rules! library_functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident($($argument:ty),*);)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[expect(non_snake_case, reason = "the library's names")]
        struct $table {
            $($name: unsafe extern "C" fn($($argument),*) -> std::ffi::c_int,)*
            // Keeps the library loaded.
            _library: libloading::Library,
        }

        impl $table {
            /// # Safety
            /// The library's functions of these names have these signatures.
            unsafe fn find(library: libloading::Library) -> madelung_core::Result<Self> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the caller knows their signatures.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> std::ffi::c_int>(stringify!($name))
                        };
                        *found.map_err(|_| {
                            madelung_core::Error::Unsupported(format!("CUDA: the library found lacks {}", stringify!($name)))
                        })?
                    },)*
                    _library: library,
                })
            }
        }
    };
}
pub(crate) use library_functions;
