//! Ranks whose program is a part of a test.

use std::any::type_name_of_val;

use super::launch::is_launched;

/// The command line of a program that does what `body` says: this test once more. In a rank it
/// runs `body` and ends the process, so it comes first in a test.
pub(crate) fn program(body: impl FnOnce()) -> Vec<String> {
    let test = test_of(type_name_of_val(&body));
    if is_launched() {
        body();
        std::process::exit(0);
    }
    let this = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
    [this, test, "--exact".to_owned(), "--nocapture".to_owned()].into()
}

/// The name by which the test harness knows the function that a closure stands in:
/// `crate::module::function::{{closure}}` without the crate and the closure.
fn test_of(closure: &str) -> String {
    let function = closure.split("::{{closure}}").next().unwrap_or(closure);
    function.split_once("::").map_or(function, |(_, path)| path).to_owned()
}
