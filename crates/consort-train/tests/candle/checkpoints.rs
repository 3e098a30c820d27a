//! Models that are kept in files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Init, Linear, VarBuilder, VarMap, linear};
use consort::Group;
use consort_testkit::{Case, conformance};
use consort_train::Error;
use consort_train::candle::{DistributedDataParallel, checkpoint};

use super::nets::{MLP, Net, Task, bits, meet, numbers, step};

conformance! { [shm in_process]
    what_is_saved_comes_back_on_all_ranks
    a_file_that_cannot_be_written_is_the_same_error_on_all_ranks
    a_file_that_is_not_of_the_model_is_the_same_error_on_all_ranks
}
conformance! { [mixed]
    only_rank_0_has_to_see_the_file
}

/// Several kinds of numbers, a buffer, and one without elements.
fn build(vb: VarBuilder<'static>) -> candle_core::Result<Net> {
    let net = (MLP.build)(vb.clone())?;
    vb.to_dtype(DType::I64).get_with_hints(3, "count", Init::Const(0.0))?;
    vb.get(4, "norm.running_var")?;
    vb.to_dtype(DType::BF16).get((2, 3), "small")?;
    vb.get((), "scalar")?;
    vb.get((0, 2), "none")?;
    Ok(net)
}

const KINDS: Task = Task { build, ..MLP };

fn new(group: &Group, task: Task) -> (DistributedDataParallel, Net, VarMap) {
    let variables = VarMap::new();
    let (ddp, net) =
        DistributedDataParallel::new(group, &variables, DType::F32, task.build).unwrap();
    (ddp, net, variables)
}

fn what_is_saved_comes_back_on_all_ranks(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let path = ctx.dir().join("model.safetensors");
        let (ddp, net, variables) = new(&group, KINDS);
        let count = variables.data().lock().unwrap()["count"].clone();
        count.set(&Tensor::new(&[7_i64, -1, 1 << 40], &Device::Cpu).unwrap()).unwrap();
        checkpoint::save(&ddp, &path).unwrap();
        let saved = bits(&ddp.vars());
        // Over another, and with notes.
        checkpoint::save_with(&ddp, &path, [("epoch", "3"), ("by", "rank 0")]).unwrap();
        let names: Vec<_> =
            fs::read_dir(ctx.dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("part")), "{names:?}");
        // Others write files that as many may read.
        fs::write(ctx.dir().join(format!("other {}", ctx.rank())), "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(path.clone()), mode(ctx.dir().join(format!("other {}", ctx.rank()))));

        (0..2).for_each(|turn| step(&ddp, &net, MLP, turn));
        count.set(&Tensor::new(&[0_i64, 0, 0], &Device::Cpu).unwrap()).unwrap();
        assert_ne!(bits(&ddp.vars()), saved);
        let notes = checkpoint::load(&ddp, &path).unwrap();
        assert_eq!((&notes["epoch"][..], &notes["by"][..]), ("3", "rank 0"));
        assert_eq!(bits(&ddp.vars()), saved);
        assert_eq!(numbers(&[count]), [7.0, -1.0, (1_u64 << 40) as f64]);
        // The model knows, and goes on as it did before.
        (0..2).for_each(|turn| step(&ddp, &net, MLP, turn));
        let after = bits(&ddp.vars());
        let (other, net, _) = new(&group, KINDS);
        checkpoint::load(&other, &path).unwrap();
        (0..2).for_each(|turn| step(&other, &net, MLP, turn));
        assert_eq!(bits(&other.vars()), after);
        // Candle reads it.
        let all = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
        assert_eq!(all.len(), 9);
        assert_eq!(all["none"].dims(), [0, 2]);
    });
}

fn a_file_that_cannot_be_written_is_the_same_error_on_all_ranks(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let (ddp, net, _) = new(&group, MLP);
        let mut told = Vec::new();
        let folder = ctx.dir().join("there is no such folder");
        for path in [folder.join("model"), ctx.dir().join(".."), "/dev/full/model".into()] {
            let error = checkpoint::save(&ddp, &path).unwrap_err();
            assert!(matches!(error, Error::Elsewhere { rank: 0, .. }), "{error}");
            assert!(error.to_string().contains("write the checkpoint"), "{error}");
            told.push(error.to_string());
        }
        // A folder has the name: what was written beside it is taken away.
        let taken = ctx.dir().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        group.barrier().unwrap();
        told.push(checkpoint::save(&ddp, &taken).unwrap_err().to_string());
        let names: Vec<_> =
            fs::read_dir(ctx.dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("part")), "{names:?}");
        step(&ddp, &net, MLP, 0);
        told
    });
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    assert!(told[0][0].contains("there is no such folder/model: "), "{told:?}");
    assert!(told[0][1].contains("no name of a file"), "{told:?}");
}

fn a_file_that_is_not_of_the_model_is_the_same_error_on_all_ranks(case: Case) {
    let told = case.run(3, |ctx| {
        let group = meet(ctx);
        let (ddp, net, _) = new(&group, MLP);
        let before = bits(&ddp.vars());
        let mut told = Vec::new();
        let mut refuse = |path: &str| {
            let error = checkpoint::load(&ddp, ctx.dir().join(path)).unwrap_err();
            assert!(matches!(error, Error::Elsewhere { rank: 0, .. }), "{error}");
            assert_eq!(bits(&ddp.vars()), before);
            told.push(error.to_string());
        };
        refuse("missing");
        if ctx.rank() == 0 {
            fs::write(ctx.dir().join("words"), "these are words, and not numbers").unwrap();
        }
        refuse("words");
        let (other, _, _) = new(&group, Task { build: other, ..MLP });
        checkpoint::save(&other, ctx.dir().join("other")).unwrap();
        refuse("other");
        // A file that was cut off.
        checkpoint::save(&ddp, ctx.dir().join("whole")).unwrap();
        if ctx.rank() == 0 {
            let whole = fs::read(ctx.dir().join("whole")).unwrap();
            fs::write(ctx.dir().join("half"), &whole[..whole.len() - 4]).unwrap();
        }
        refuse("half");
        step(&ddp, &net, MLP, 0);
        ddp.verify().unwrap();
        told
    });
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    let other = &told[0][2];
    for line in [
        "\"first.weight\" is BF16 [13, 7] there, and f32 [13, 7] in the model",
        "\"last.weight\" is F32 [4, 13] there, and f32 [5, 13] in the model",
        "\"first.bias\" is missing",
        "\"more.weight\" is not in the model",
    ] {
        assert!(other.contains(line), "{line}: {other}");
    }
    assert!(!other.contains("\"last.bias\""), "{other}");
}

/// Almost the same names.
fn other(vb: VarBuilder<'static>) -> candle_core::Result<Net> {
    vb.to_dtype(DType::BF16).get((13, 7), "first.weight")?;
    vb.get((4, 13), "last.weight")?;
    vb.get(5, "last.bias")?;
    let _: Linear = linear(2, 2, vb.pp("more"))?;
    Ok(Box::new(|x| Ok(x.clone())))
}

fn only_rank_0_has_to_see_the_file(case: Case) {
    let all = case.run(2, |ctx| {
        let group = meet(ctx);
        let (ddp, net, _) = new(&group, MLP);
        // Each rank has a folder of its own.
        let path = ctx.dir().join(format!("of {}", ctx.rank()));
        if ctx.rank() == 0 {
            fs::create_dir(&path).unwrap();
        }
        checkpoint::save_with(&ddp, path.join("model"), [("of", &*ctx.rank().to_string())])
            .unwrap();
        let saved = bits(&ddp.vars());
        step(&ddp, &net, MLP, 0);
        let notes = checkpoint::load(&ddp, path.join("model")).unwrap();
        assert_eq!(notes["of"], "0");
        assert_eq!(bits(&ddp.vars()), saved);
        step(&ddp, &net, MLP, 0);
        bits(&ddp.vars())
    });
    assert_eq!(all[0], all[1]);
}
