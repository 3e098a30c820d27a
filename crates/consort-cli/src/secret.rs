//! `consort secret`: makes the secret that the hosts of a job share.

use std::path::PathBuf;
use std::process::ExitCode;

use consort_store::Secret;

/// Make the secret that the hosts of a job share.
///
/// Nobody without it gets into the job. FILE is created readable by its owner alone; an existing
/// one is never overwritten. Copy it to every host, for example with scp, and give it to
/// `consort run --secret-file FILE`, or to programs that other launchers start in
/// CONSORT_SECRET_FILE.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to create.
    file: PathBuf,
}

/// Makes the file and says what to do with it.
pub(crate) fn main(args: &Args) -> ExitCode {
    let path = args.file.display();
    match Secret::generate().and_then(|secret| secret.write_new(&args.file)) {
        Ok(()) => {
            println!("made {path}: copy it to every host of the job and start each with");
            println!("    consort run --secret-file {path} --nnodes N --rdzv tcp://HOST:PORT …");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("consort: {error}");
            ExitCode::FAILURE
        }
    }
}
