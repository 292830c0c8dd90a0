//! Workers and a coordinator on one machine: a function that follows a stream of records.

use fedreg_common::exit::Exit;
use fedreg_common::report::Report;
use fedreg_common::study::{DecayName, KernelName, LossName, Protocol, StreamFeatures, StreamTerms};

use crate::Failure;
use crate::arguments::{KernelFlag, LossFlag, Stream};
use crate::sites::{self, Asked, FROM_DATA, Rows, Shipped};
use crate::stage::{Place, as_study};

const SHIPPED: Shipped = Shipped {
    name: "wave.csv",
    text: include_str!("../data/wave.csv"),
    outcome: "y",
    bounds: include_str!("../data/wave.bounds.toml"),
};

pub(crate) fn run(arguments: &Stream, call: String) -> Result<Exit, Failure> {
    let common = &arguments.common;
    common.check()?;
    let scene = Place::of(&common.out, common.as_study.as_deref(), &common.places)?;
    let place = scene.folder();
    let asked = Asked {
        data: arguments.data.as_deref(),
        table: &common.table,
        outcome: arguments.outcome.as_deref(),
        features: arguments.features.as_deref().map(|names| (names, "--features")),
        person: arguments.person.as_deref(),
        identifies: Some("--person"),
        lists: "--features",
        explains: true,
    };
    let rows = Rows::read(&asked, &SHIPPED, place)?;
    let mut study = sites::study(Protocol::Stream, &rows, common, arguments.group);
    let (columns, from_data) = rows.columns(common)?;
    study.columns = columns;
    study.stream = Some(StreamTerms {
        kernel: match arguments.kernel {
            KernelFlag::Gaussian => KernelName::Gaussian,
            KernelFlag::Sobolev => KernelName::Sobolev,
        },
        width: arguments.width,
        grid: arguments.grid,
        features: arguments.count.map(|count| StreamFeatures {
            count,
            frequency_sd: arguments.frequency_sd,
            seed: common.seed,
        }),
        loss: match arguments.loss {
            LossFlag::Huber => LossName::Huber,
            LossFlag::Squares => LossName::Squares,
        },
        tau: arguments.tau,
        step: arguments.step,
        decay: if arguments.constant { DecayName::Constant } else { DecayName::Root },
        records_per_person: arguments.records_per_person,
        ..StreamTerms::default()
    });
    let all: Vec<usize> = (0..usize::try_from(rows.count).unwrap_or(0)).collect();
    if let Some(dir) = &common.as_study {
        return as_study((dir, &common.places), &study, None);
    }
    let own = sites::rehearse(place, "demo stream", &study, &rows, &all)?;
    let mut merged = Report { role: None, call, ..own };
    if from_data {
        merged.notes.push(FROM_DATA.to_string());
    }
    sites::show(place, &merged, &study, common.format, &[])
}
