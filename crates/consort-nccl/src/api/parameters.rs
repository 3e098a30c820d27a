//! What can be set from outside: the variables of the environment that mean something to this library.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io::Write;

use crate::failure::{self, Failure, Result};
use crate::parameters::{Parameter, keys};
use crate::raw::{Bytes, Handle, Out, Text};

macro_rules! numbers {
    ($($(#[$meta:meta])* fn $name:ident, $alias:ident -> $number:ty;)*) => {
        exports! {$(
            $(#[$meta])*
            fn $name, $alias(h: Handle, out: Out<$number>) {
                out.check("out")?;
                out.set("out", Parameter::find(h)?.number()?)
            }
        )*}
    };
}

numbers! {
    /// What a parameter is set to, as a number.
    fn ncclParamGetI8, pncclParamGetI8 -> i8;
    /// What a parameter is set to, as a number.
    fn ncclParamGetI16, pncclParamGetI16 -> i16;
    /// What a parameter is set to, as a number.
    fn ncclParamGetI32, pncclParamGetI32 -> i32;
    /// What a parameter is set to, as a number.
    fn ncclParamGetI64, pncclParamGetI64 -> i64;
    /// What a parameter is set to, as a number.
    fn ncclParamGetU8, pncclParamGetU8 -> u8;
    /// What a parameter is set to, as a number.
    fn ncclParamGetU16, pncclParamGetU16 -> u16;
    /// What a parameter is set to, as a number.
    fn ncclParamGetU32, pncclParamGetU32 -> u32;
    /// What a parameter is set to, as a number.
    fn ncclParamGetU64, pncclParamGetU64 -> u64;
}

exports! {
    /// The handle of the parameter of this name, for as long as the process lives.
    fn ncclParamBind, pncclParamBind(out: Out<Handle>, key: Text) {
        out.check("out")?;
        out.set("out", Parameter::named(&key.read("key")?)?.handle())
    }

    /// What a parameter is set to; empty if it is not. The text stays until this thread asks again.
    fn ncclParamGetStr, pncclParamGetStr(h: Handle, out: Out<*const c_char>) {
        out.check("out")?;
        out.set("out", show(Parameter::find(h)?)?.0)
    }

    /// The bytes of what a parameter is set to, without a zero at the end. If there is not enough room, `len` says
    /// how many there are.
    fn ncclParamGet, pncclParamGet(h: Handle, out: Bytes, maxLen: c_int, len: Out<c_int>) {
        let value = Parameter::find(h)?.value();
        len.set("len", value.len() as c_int)?;
        match usize::try_from(maxLen) {
            Ok(room) if value.len() <= room => out.write("out", value.as_bytes()),
            _ => Err(Failure::argument(format!(
                "maxLen is {maxLen}, and the value has {} bytes",
                value.len()
            ))),
        }
    }

    /// What the parameter of this name is set to, and how long that is. The text stays until this thread asks
    /// again.
    fn ncclParamGetParameter, pncclParamGetParameter(
        key: Text, value: Out<*const c_char>, valueLen: Out<c_int>,
    ) {
        value.check("value")?;
        let (text, len) = show(Parameter::named(&key.read("key")?)?)?;
        value.set("value", text)?;
        valueLen.set("valueLen", len as c_int)
    }

    /// The names of all parameters. The table stays until this thread asks again.
    fn ncclParamGetAllParameterKeys, pncclParamGetAllParameterKeys(
        table: Out<*const *const c_char>, tableLen: Out<c_int>,
    ) {
        tableLen.set("tableLen", keys().len() as c_int)?;
        let all = || keys().iter().map(|key| key.as_ptr()).collect::<Vec<_>>();
        let start = TABLE.try_with(|table| {
            let mut table = table.borrow_mut();
            *table = all();
            table.as_ptr()
        });
        // In a thread that is about to end it stays for good.
        table.set("table", start.unwrap_or_else(|_| all().leak().as_ptr()))
    }
}

/// Writes all parameters and what they are set to to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn ncclParamDumpAll() {
    dump();
}

#[doc(hidden)]
#[unsafe(no_mangle)]
pub extern "C" fn pncclParamDumpAll() {
    dump();
}

fn dump() {
    for key in keys() {
        let key = key.to_string_lossy();
        match std::env::var(&*key) {
            Ok(value) => tell(format_args!("{key}={value}")),
            Err(_) => tell(format_args!("{key} is not set")),
        }
    }
}

/// A program may have closed its standard error.
fn tell(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A value where C can read it, and how long it is.
fn show(parameter: Parameter) -> Result<(*const c_char, usize)> {
    let text = CString::new(parameter.value())
        .map_err(|_| Failure::argument(format!("{} has a zero in it", parameter.key())))?;
    let len = text.as_bytes().len();
    Ok((failure::show(&SHOWN, text), len))
}

thread_local! {
    /// What the program may still look at.
    static SHOWN: RefCell<CString> = RefCell::default();
    static TABLE: RefCell<Vec<*const c_char>> = const { RefCell::new(Vec::new()) };
}
