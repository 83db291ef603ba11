//! The metadata of handlers, and their errors.

use super::*;
use crate::handlers::{member, member_on_cuda, member_with_scratch};
use std::ffi::CStr;
use std::ptr::null;
use std::sync::Mutex;

static SAID: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

unsafe extern "C" fn create(args: *mut ErrorCreate) -> *mut c_void {
    // SAFETY: `enter` gives arguments with a text.
    let (code, text) = unsafe { ((*args).code, CStr::from_ptr((*args).message).to_string_lossy().into()) };
    SAID.lock().expect("a lock").push((code, text));
    args.cast()
}

fn version((major, minor): (c_int, c_int)) -> Version {
    Version { size: size_of::<Version>(), extension: null_mut(), major, minor }
}

fn api(of: (c_int, c_int)) -> Api {
    Api {
        size: 0,
        extension: null_mut(),
        version: version(of),
        internal: null(),
        error_create: create,
        error_message: None,
        error_destroy: None,
        _handler_register: null(),
        stream_get: None,
        _type_register: null(),
        _context_get: null(),
        _state: [null(); 2],
        memory_allocate: None,
        memory_free: None,
    }
}

fn frame(api: *const Api, stage: u32, extension: *mut Extension) -> CallFrame {
    let none = || Buffers { size: 0, extension: null_mut(), count: 0, kinds: null(), items: null() };
    CallFrame {
        size: size_of::<CallFrame>(),
        extension,
        api,
        context: null_mut(),
        stage,
        operands: none(),
        results: none(),
        attributes: Attributes {
            size: 0,
            extension: null_mut(),
            count: 0,
            kinds: null(),
            names: null(),
            items: null(),
        },
    }
}

/// The metadata that a handler reports to a runtime of a version, or of none.
fn answer(runtime: Option<(c_int, c_int)>, handler: Handler) -> ((c_int, c_int), u32) {
    let api = runtime.map(api);
    let mut metadata = Metadata { size: size_of::<Metadata>(), version: version((7, 7)), traits: 7 };
    let base = |kind, next| Extension { size: size_of::<Extension>(), kind, next };
    let mut asked =
        MetadataExtension { base: base(EXTENSION_METADATA, null_mut()), metadata: &raw mut metadata };
    // Behind an extension of another kind.
    let mut other = base(99, (&raw mut asked).cast());
    let mut frame = frame(api.as_ref().map_or(null(), |api| api), 0, &raw mut other);
    // SAFETY: a frame as XLA registers with.
    assert!(unsafe { handler(&raw mut frame) }.is_null());
    ((metadata.version.major, metadata.version.minor), metadata.traits)
}

#[test]
fn no_runtime_is_told_a_version_beyond_its_own() {
    assert_eq!(answer(None, member), ((0, 1), 0));
    assert_eq!(answer(Some((0, 1)), member), ((0, 1), 0));
    assert_eq!(answer(Some((0, 2)), member), ((0, 2), 0));
    assert_eq!(answer(Some((0, 3)), member), ((0, 3), 0));
    assert_eq!(answer(Some((0, 9)), member), (HEADER, 0));
    assert_eq!(answer(Some((1, 0)), member_on_cuda), (HEADER, 0));
}

#[test]
fn only_what_has_its_scratch_as_a_result_may_be_captured() {
    for (handler, traits) in [(member as Handler, 0), (member_on_cuda, 0), (member_with_scratch, 1)] {
        assert_eq!(answer(Some((0, 3)), handler).1, traits);
    }
}

fn run(stage: u32, work: impl FnOnce(&Call<'_>) -> Result<()>) -> Option<(u32, String)> {
    let api = api(HEADER);
    let mut frame = frame(&raw const api, stage, null_mut());
    // SAFETY: a frame as XLA calls with.
    let failed = !unsafe { enter(&raw mut frame, 0, work) }.is_null();
    failed.then(|| SAID.lock().expect("a lock").pop().expect("an error"))
}

#[test]
fn errors_and_panics_become_errors_of_xla() {
    assert_eq!(run(STAGE_EXECUTE, |_| Ok(())), None);
    let error = run(STAGE_EXECUTE, |call| call.text("target").map(|_| ()));
    let text = "`target`: expected an attribute of the call, got none";
    assert_eq!(error, Some((INVALID_ARGUMENT, text.into())));
    let error = run(STAGE_EXECUTE, |_| Err(Error::Unsupported("with a\0null".into())));
    assert_eq!(error, Some((UNIMPLEMENTED, "with a null".into())));
    let error = run(STAGE_EXECUTE, |_| panic!("on purpose"));
    assert_eq!(error, Some((INTERNAL, "a defect in Madelung, please report it: on purpose".into())));
    // Only the execution stage does work.
    assert_eq!(run(0, |_| panic!("not called")), None);
}
