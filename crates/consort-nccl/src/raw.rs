//! What C hands over, until it is looked at.
//!
//! Each type is what C sees as a pointer. Only C makes one, or a test that promises what C has to; so whoever
//! has one knows that it is null or leads to what its type says, and need not be unsafe.

use std::ffi::{CStr, c_char, c_void};
use std::mem::size_of;
use std::ptr;

use crate::failure::{Failure, Result};

/// Where a result goes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// It is null, or can be written to until the call that it is given to has returned.
    pub unsafe fn from_raw(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// # Errors
    /// When there is nowhere to write.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        if self.0.is_null() { Err(is_null(name)) } else { Ok(()) }
    }

    /// # Errors
    /// When there is nowhere to write.
    pub(crate) fn set(&self, name: &str, value: T) -> Result<()> {
        self.check(name)?;
        // SAFETY: it is not null, so it can be written to, as whoever made it promised.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Where the result of the same kind goes that is so many further.
    pub(crate) fn nth(&self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }
}

/// One thing to be read, or several behind each other.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// # Safety
    /// It is null, or as many as the call is told to be there can be read until it has returned.
    pub unsafe fn from_raw(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// Whether there is nothing.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// # Errors
    /// When there is nothing.
    pub(crate) fn get(&self, name: &str) -> Result<T> {
        if self.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: it is not null, so it can be read, as whoever made it promised.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// All of them.
    ///
    /// # Errors
    /// When there are none, though there should be some.
    pub(crate) fn list(&self, name: &str, count: usize) -> Result<Vec<T>> {
        if count > 0 && self.is_null() {
            return Err(is_null(name));
        }
        (0..count).map(|index| Self(self.0.wrapping_add(index)).get(name)).collect()
    }
}

/// A structure that begins with its own size, and is shorter in programs that know less of it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Grown<T>(*mut T);

/// What such a structure may be made of: numbers, and pointers, which whoever makes a [`Grown`] of it answers for.
///
/// # Safety
/// All bytes are a valid value, and the first field is its size, as a `usize`.
pub unsafe trait Plain: Copy {}

impl<T: Plain> Grown<T> {
    /// # Safety
    /// It is null, or leads to as many bytes as the first field there says, which can be read and written until
    /// the call that it is given to has returned. A pointer among them, if it is whole and not null, leads to what
    /// the field has in the C API, which can be read as long: for a name, bytes that end with a zero.
    pub unsafe fn from_raw(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Whether there is nothing.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// What is there. What the program does not know of is as in `otherwise`, and what this library does not
    /// know of is not looked at.
    ///
    /// # Errors
    /// When there is nothing, or less than `least` bytes of it.
    pub(crate) fn read(&self, name: &str, least: usize, otherwise: T) -> Result<T> {
        if self.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: the first field is there, as whoever made it promised.
        let size = unsafe { self.0.cast::<usize>().read_unaligned() };
        if size < least {
            let what = format!("{name} says that it has {size} bytes, but the least are {least}");
            return Err(Failure::argument(format!("{what}: begin with its initializer")));
        }
        let mut value = otherwise;
        let known = size.min(size_of::<T>());
        // SAFETY: as many bytes are there as it says, as whoever made it promised, and all are valid.
        unsafe { ptr::copy_nonoverlapping(self.0.cast::<u8>(), (&raw mut value).cast(), known) };
        Ok(value)
    }

    /// Changes what is there, as far as the program knows of it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn write(&self, name: &str, least: usize, value: T) -> Result<()> {
        let old = self.read(name, least, value)?;
        // SAFETY: a `Plain` begins with its size.
        let size = unsafe { (&raw const old).cast::<usize>().read() };
        let (known, word) = (size.min(size_of::<T>()), size_of::<usize>());
        let from = (&raw const value).cast::<u8>().wrapping_add(word);
        let to = self.0.cast::<u8>().wrapping_add(word);
        // SAFETY: as many bytes are there as it says; the size itself stays.
        unsafe { ptr::copy_nonoverlapping(from, to, known - word) };
        Ok(())
    }
}

/// Words that end with a zero.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// # Safety
    /// It is null, or leads to bytes that end with a zero and can be read until the call has returned.
    pub unsafe fn from_raw(pointer: *const c_char) -> Self {
        Self(pointer)
    }

    /// The words, or what can be read of them.
    ///
    /// # Errors
    /// When there are none.
    pub(crate) fn read(&self, name: &str) -> Result<String> {
        if self.0.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: it is not null, so it ends with a zero, as whoever made it promised.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Where bytes go, as many as the call says.
#[derive(Debug)]
#[repr(transparent)]
pub struct Bytes(*mut c_void);

impl Bytes {
    /// # Safety
    /// It is null, or as many bytes as the call is told can be written there until it has returned.
    pub unsafe fn from_raw(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Writes bytes, which are no more than the call is told.
    ///
    /// # Errors
    /// When there is nowhere to write.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.0.is_null() {
            return Err(is_null(name));
        }
        // SAFETY: there is room for them, as whoever made it promised.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), bytes.len()) };
        Ok(())
    }
}

/// Memory of the program: where it begins. How much it is, the call says, and it stays until the call is
/// carried out, which for one on a stream is later than it returns.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Buffer(*mut c_void);

impl Buffer {
    /// # Safety
    /// It is null, or leads to as much memory as the call is told, which nobody else writes to, nor reads if the
    /// call writes, until it is carried out.
    pub unsafe fn from_raw(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    /// Where it begins.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

/// A communicator, a stream, a window or another thing of this library. What C takes for a pointer is a number
/// that is looked up, and leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Handle(usize);

impl Handle {
    /// Nothing: `NULL`.
    pub const NULL: Self = Self(0);

    /// The one with this number.
    pub const fn new(number: usize) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0
    }

    /// Whether it is `NULL`.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

fn is_null(name: &str) -> Failure {
    Failure::argument(format!("{name} is NULL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Thing {
        size: usize,
        old: u32,
        new: u32,
    }

    // SAFETY: it is numbers only, and the size comes first.
    unsafe impl Plain for Thing {}

    #[test]
    fn what_a_program_does_not_know_of_is_neither_read_nor_written() {
        let mut thing = Thing { size: 12, old: 1, new: 2 };
        // SAFETY: it lives to the end, and has no pointers.
        let pointer = unsafe { Grown::from_raw(&mut thing) };
        let default = Thing { size: 16, old: 7, new: 8 };
        assert_eq!(pointer.read("thing", 12, default).unwrap(), Thing { size: 12, old: 1, new: 8 });
        pointer.write("thing", 12, Thing { size: 16, old: 5, new: 6 }).unwrap();
        assert_eq!(thing, Thing { size: 12, old: 5, new: 2 });
        // SAFETY: as above.
        let pointer = unsafe { Grown::from_raw(&mut thing) };
        assert!(pointer.read("thing", 16, default).unwrap_err().text.contains("thing"));
    }

    #[test]
    fn null_is_told_by_its_name() {
        // SAFETY: null leads nowhere.
        let out = unsafe { Out::<u8>::from_raw(ptr::null_mut()) };
        // SAFETY: null leads nowhere.
        let list = unsafe { In::<u8>::from_raw(ptr::null()) };
        assert_eq!(out.set("result", 1).unwrap_err().text, "result is NULL");
        assert_eq!(list.list("values", 2).unwrap_err().text, "values is NULL");
        assert!(list.list("values", 0).unwrap().is_empty());
    }
}
