//! What a reducer can do on devices.

use std::collections::BTreeSet;

use consort::device::Device;
use consort::{Call, Dtype, Group, ReduceOp};

use super::Settings;
use crate::agreement::all_well;
use crate::error::{Error, Result};
use crate::hook::CommHook;
use crate::memory::{LINE, Memory};
use crate::parameter::Parameter;

impl Settings {
    /// Whether these parameters' gradients can be kept on a device and averaged there. All ranks find the
    /// same. What is refused takes kernels, which a device has none of ours.
    ///
    /// # Errors
    /// When they cannot, with what to do instead.
    pub(super) fn check_device(&self, parameters: &[Parameter], hook: &dyn CommHook) -> Result<()> {
        let what = if !hook.works_on_devices() {
            format!(
                "the communication hook {:?} looks at numbers, which lie on devices (Options::on_device): use \
                 Average, which is used if none is said, or gradients on the host; a hook of yours that leaves \
                 the numbers to Round::average says so by CommHook::works_on_devices",
                hook.name()
            )
        } else if let Some(sparse) = parameters.iter().find(|it| it.is_sparse()) {
            format!(
                "parameter {:?} is sparse, and rows are not gathered on devices (Options::on_device): give its \
                 gradient as a whole, or have a second reducer on the host for it",
                sparse.name()
            )
        } else if let Some((odd, dtype)) = self.converted(parameters) {
            format!(
                "gradients of parameter {:?} are of {}, and are not converted to {dtype} on devices \
                 (Options::on_device): let the engine give them as {dtype}, or leave Options::reduce_as out",
                odd.name(),
                odd.dtype()
            )
        } else if self.rules.adopt.is_some() {
            "memory of the host that is given with gradients is not averaged by devices: say one of \
             Options::adopt and Options::on_device"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Argument(what))
    }

    /// A parameter whose gradients would be kept as numbers of another dtype.
    fn converted<'a>(&self, parameters: &'a [Parameter]) -> Option<(&'a Parameter, Dtype)> {
        let dtype = self.rules.dtype?;
        parameters.iter().find(|it| it.dtype() != dtype).map(|it| (it, dtype))
    }
}

/// Averages a few numbers of each of the parameters' dtypes on the ranks' devices: what they lack is seen before
/// anything depends on it, and by all. Every rank has to call it.
///
/// # Errors
/// On every rank, when one has no device or nothing that makes calls on them, or another device than its group uses,
/// or when numbers of a dtype are not averaged there; and why the group has ended, if it has.
pub(crate) fn try_out(group: &Group, device: &Device, parameters: &[Parameter]) -> Result<()> {
    let memory = match group.device_in_use()? {
        Some(other) if other != device.number() => Err(Error::Argument(format!(
            "Options::on_device says device {}, and the group's calls on devices are carried out on device {other}: \
             that of its first such call",
            device.number()
        ))),
        _ => Memory::on_device(LINE, device),
    };
    all_well(group, "use its device", memory.as_ref().err().map(Error::to_string))?;
    let mut memory = memory?;
    let mut tried = BTreeSet::new();
    for parameter in parameters.iter().filter(|it| tried.insert(it.dtype().code())) {
        let (dtype, op, output) = (parameter.dtype(), ReduceOp::Avg, memory.target());
        let call = Call::AllReduce { dtype, op, input: output.into(), output };
        group.call(&call).map_err(|error| match error {
            consort::Error::Argument(why) => {
                let name = parameter.name();
                let what = format!("gradients of {name:?} cannot be averaged on devices: {why}");
                Error::Argument(what)
            }
            other => other.into(),
        })?;
    }
    Ok(())
}
