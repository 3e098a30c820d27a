//! That this table is what an installed MPI says in its header for programs in C.

use std::fs;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use consort_testkit::{Mpi, Skip, skip};

use super::*;

#[test]
fn every_number_is_the_one_in_the_header() {
    let header = match header() {
        Ok(header) => header,
        Err(reason) => return skip(reason),
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("numbers.c");
    let mut text = "#include <stddef.h>\n#include <mpi_abi.h>\nvoid check(void) {\n".to_owned();
    for (name, number) in handles().into_iter().chain(numbers()) {
        // Handles are pointers in C, which are no constants that a compiler may compare before it runs.
        text += &format!("  {{ char is[(size_t){name} == {number} ? 1 : -1]; (void)is; }}\n");
    }
    fs::write(&source, text + "}\n").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-fsyntax-only", "-Wno-vla", "-I"]).arg(header.parent().unwrap());
    match compiler.arg(source).output() {
        Err(_) => skip("there is no compiler for C"),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn every_function_has_the_arguments_that_it_has_in_the_header() {
    let header = match header() {
        Ok(header) => fs::read_to_string(header).unwrap(),
        Err(reason) => return skip(reason),
    };
    for (name, arguments) in SIGNATURES {
        let name = name.to_str().unwrap();
        let found = header.split_once(&format!("\nint {name}(")).map(|(_, rest)| rest);
        let declared = found.and_then(|rest| rest.split_once(')')).map(|(arguments, _)| arguments);
        let declared = declared.unwrap_or_else(|| panic!("the header has no {name}"));
        let declared: Vec<String> =
            declared.split(',').map(in_rust).filter(|it| it != "void").collect();
        assert_eq!(declared, *arguments, "{name}");
    }
}

/// The header of the MPI that tests have.
fn header() -> Result<PathBuf, Skip> {
    let library = Mpi::find()?.library();
    let header = library.parent().and_then(|lib| Some(lib.parent()?.join("include/mpi_abi.h")));
    let there = header.filter(|header| header.is_file());
    there.ok_or_else(|| Skip::new("MPI is installed without its header"))
}

fn handles() -> Vec<(String, usize)> {
    let named = [
        ("MPI_COMM_WORLD", WORLD),
        ("MPI_COMM_NULL", COMM_NULL),
        ("MPI_GROUP_NULL", GROUP_NULL),
        ("MPI_REQUEST_NULL", REQUEST_NULL),
        ("MPI_MESSAGE_NULL", MESSAGE_NULL),
        ("MPI_ERRHANDLER_NULL", ERRHANDLER_NULL),
        ("MPI_IN_PLACE", Handle(IN_PLACE.addr())),
        ("MPI_BYTE", BYTE),
    ];
    let datatypes = [
        ("MPI_INT8_T", Dtype::I8),
        ("MPI_UINT8_T", Dtype::U8),
        ("MPI_INT16_T", Dtype::I16),
        ("MPI_UINT16_T", Dtype::U16),
        ("MPI_INT32_T", Dtype::I32),
        ("MPI_UINT32_T", Dtype::U32),
        ("MPI_INT64_T", Dtype::I64),
        ("MPI_UINT64_T", Dtype::U64),
    ];
    let ops = [
        ("MPI_SUM", ReduceOp::Sum),
        ("MPI_MIN", ReduceOp::Min),
        ("MPI_MAX", ReduceOp::Max),
        ("MPI_PROD", ReduceOp::Product),
        ("MPI_BAND", ReduceOp::BitAnd),
        ("MPI_BOR", ReduceOp::BitOr),
        ("MPI_BXOR", ReduceOp::BitXor),
    ];
    let exactly = |dtype, op| Arithmetic::exactly(dtype, op).expect("MPI has it");
    let datatypes = datatypes.map(|(name, it)| (name, exactly(it, ReduceOp::Sum).datatype));
    let ops = ops.map(|(name, it)| (name, exactly(Dtype::I32, it).op));
    let all = named.into_iter().chain(datatypes).chain(ops);
    all.map(|(name, handle)| (name.to_owned(), handle.0)).collect()
}

fn numbers() -> Vec<(String, usize)> {
    let status = |field: &str| format!("offsetof(MPI_Status, {field})");
    vec![
        ("MPI_ABI_VERSION".to_owned(), VERSION as usize),
        ("MPI_SUCCESS".to_owned(), SUCCESS as usize),
        ("MPI_THREAD_MULTIPLE".to_owned(), THREAD_MULTIPLE as usize),
        ("-MPI_ANY_SOURCE".to_owned(), -ANY_SOURCE as usize),
        ("MPI_MAX_ERROR_STRING".to_owned(), MAX_ERROR_STRING),
        ("MPI_MAX_LIBRARY_VERSION_STRING".to_owned(), MAX_LIBRARY_VERSION_STRING),
        ("MPI_STATUS_IGNORE".to_owned(), 0),
        ("sizeof(MPI_Comm)".to_owned(), size_of::<Handle>()),
        ("sizeof(MPI_Datatype)".to_owned(), size_of::<Handle>()),
        ("sizeof(MPI_Count)".to_owned(), size_of::<Count>()),
        ("sizeof(MPI_Aint)".to_owned(), size_of::<Distance>()),
        ("sizeof(MPI_Status)".to_owned(), size_of::<Status>()),
        (status("MPI_SOURCE"), offset_of!(Status, source)),
        (status("MPI_TAG"), offset_of!(Status, tag)),
        (status("MPI_ERROR"), offset_of!(Status, error)),
        (status("MPI_internal"), offset_of!(Status, internal)),
    ]
}

/// The type of an argument that is declared so in C.
fn in_rust(declared: &str) -> String {
    let declared = declared.trim();
    let is_list = declared.ends_with("[]");
    let (is_const, rest) = match declared.strip_prefix("const ") {
        Some(rest) => (true, rest),
        None => (false, declared),
    };
    let stars = rest.matches('*').count() + usize::from(is_list);
    let name = rest.split([' ', '*']).next().unwrap_or(rest);
    let name = match name {
        "void" if stars == 0 => return "void".to_owned(),
        "void" => "c_void",
        "int" => "c_int",
        "char" => "c_char",
        "MPI_Count" => "Count",
        "MPI_Aint" => "Distance",
        "MPI_Status" => "Status",
        "MPI_Comm_errhandler_function" => return "OnError".to_owned(),
        _ => "Handle",
    };
    let pointer = if is_const { "*const " } else { "*mut " };
    pointer.repeat(stars) + name
}
