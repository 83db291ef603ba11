//! The ops of a registry in PyTorch's dispatcher.
//!
//! The bridge finds the stable C shim in the libtorch that the process has loaded, and registers a schema and a kernel
//! for every member of every op's family; it links to no libtorch, needs no C++, and one binary serves PyTorch 2.7 and
//! newer. `madelung.torch` registers what PyTorch takes from Python (fake kernels, autograd, rules for `vmap` and
//! forward mode), from the [`Described`] ops.
//!
//! Each op is registered twice: as `name_vN`, with an autograd formula of `madelung.torch`, for compiled and exported
//! graphs (results that are not requested are empty tensors), and as `_name_vN`, without autograd (they are `None`).

mod call;
mod kernel;
mod pieces;
mod schema;
mod shim;
mod tensor;
mod threads;

use call::Entry;
pub use call::{on_device, on_host};
use madelung_bridge::layout::Input;
pub use madelung_bridge::{Counts, Member, layout};
use madelung_bridge::{Flat, flat, name_of};
use madelung_core::op::{Op, Registry};
use madelung_core::{Error, Result};
use schema::schema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};
pub use tensor::{copied, stream};

/// The description of a registered op.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// The op.
    pub op: Arc<Op>,
    /// The op's inputs, which come first in every member; see [`Member`] for those that follow.
    pub inputs: Arc<[Input]>,
    /// The schemas of the members without the namespace, by suffix.
    pub schemas: Vec<(&'static str, String)>,
    /// The names of the residuals.
    pub saves: Vec<String>,
}

/// The descriptions of all ops of `registries`.
///
/// # Errors
/// Those of [`layout::inputs`].
pub fn describe(registries: &[&Registry]) -> Result<Vec<Described>> {
    let described = flat(registries)?.into_iter().map(|Flat { op, inputs }| {
        let members = Member::ALL.into_iter().filter(|member| member.is_of(&op));
        let schemas = members
            .map(|m| (m.suffix(), schema(m, &op, &inputs, &format!("{}{}", name_of(&op), m.suffix()))))
            .collect();
        let saves = op.saved().into_iter().map(|spec| spec.name).collect();
        Described { op, inputs, schemas, saves }
    });
    Ok(described.collect())
}

/// Registers the ops of `registries` with the loaded libtorch at `path`, unless they are registered, and returns their
/// descriptions.
///
/// # Errors
/// `path`, where that library is not loaded; libtorch is older than 2.7 or refuses a schema; those of [`describe`].
pub fn register(path: &str, registries: &[&Registry]) -> Result<Vec<Described>> {
    static REGISTERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let shim = shim::load(path)?;
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let described = describe(registries)?;
    for d in described.iter().filter(|d| !registered.contains(&d.op.full_name())) {
        library::add(shim, d)?;
    }
    registered.extend(described.iter().map(|d| d.op.full_name()));
    Ok(described)
}

/// Registration in torch's library.
mod library {
    #![expect(unsafe_code, reason = "foreign functions with C strings")]

    use super::{CStr, CString, Described, Entry, Error, Flat, Member, Result, c_void, name_of, schema};
    use crate::kernel::function;
    use crate::shim::{Boxed, Shim};

    fn text(s: &str) -> Result<CString> {
        CString::new(s).map_err(|_| Error::argument("op", "a name without a null character", s))
    }

    /// A namespace of operators. Its libraries are never freed, because that would unregister the operators.
    struct Namespace<'a> {
        shim: &'a Shim,
        define: *mut c_void,
        /// Libraries for kernels, one for each dispatch key.
        implement: Vec<*mut c_void>,
    }

    impl<'a> Namespace<'a> {
        fn open(shim: &'a Shim, name: &str, keys: &[&CStr]) -> Result<Self> {
            let name = text(name)?;
            let (ns, file, mut define) = (name.as_ptr(), c"madelung".as_ptr(), std::ptr::null_mut());
            // SAFETY: C strings that live through the call; the result goes to a local variable.
            let made = unsafe { (shim.aoti_torch_library_init_fragment)(ns, file, line!(), &raw mut define) };
            shim.done(made, "opening a namespace")?;
            let implement = keys.iter().map(|key| {
                let mut library = std::ptr::null_mut();
                // SAFETY: as above.
                let made = unsafe {
                    (shim.aoti_torch_library_init_impl)(ns, key.as_ptr(), file, line!(), &raw mut library)
                };
                shim.done(made, "opening a namespace")?;
                Ok(library)
            });
            Ok(Self { shim, define, implement: implement.collect::<Result<_>>()? })
        }

        /// Adds an operator; `function` takes the arguments of `schema`.
        fn add(&self, name: &str, schema: &str, function: Boxed) -> Result<()> {
            let (name, schema) = (text(name)?, text(schema)?);
            // SAFETY: C strings that live through the calls, and libraries that are never freed.
            unsafe {
                let made = (self.shim.aoti_torch_library_def)(self.define, schema.as_ptr());
                self.shim.done(made, "defining an op")?;
                for library in &self.implement {
                    let made = (self.shim.aoti_torch_library_impl)(*library, name.as_ptr(), function);
                    self.shim.done(made, "registering a kernel")?;
                }
            }
            Ok(())
        }
    }

    /// Adds the members of an op, under both names.
    pub(super) fn add(shim: &Shim, described: &Described) -> Result<()> {
        let op = &described.op;
        let flat = Flat { op: op.clone(), inputs: described.inputs.clone() };
        // Tensors of other devices also reach these kernels, whose error lists the supported devices.
        let namespace = Namespace::open(shim, &op.namespace, &[c"CPU", c"CUDA"])?;
        for member in Member::ALL.into_iter().filter(|m| m.is_of(op)) {
            for prefix in ["", "_"] {
                let function = function(Entry::new(&flat, member, prefix.is_empty()))?;
                let name = format!("{prefix}{}{}", name_of(op), member.suffix());
                namespace.add(&name, &schema(member, op, &described.inputs, &name), function)?;
            }
        }
        Ok(())
    }
}
