//! The papers' figures: their rows and plots, as reports have them.

use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use serde_json::json;
use wellspring_experiments::sweep::Output;
use wellspring_figures::{FIGURES, Figure, Lab, Scale};

use crate::simulation::{Stop, heed, interruptible, wrong};

/// Names of the figures, and what each shows.
#[pyfunction]
pub fn figures() -> Vec<(&'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.name, figure.title)).collect()
}

/// Reproduces a figure: its rows and its plots as JSON, with the keys of the records that `wellspring-lab` keeps.
#[pyfunction]
#[pyo3(signature = (name, quick=false, seeds=None, stop=None))]
pub fn reproduce(
    py: Python<'_>,
    name: &str,
    quick: bool,
    seeds: Option<Vec<u64>>,
    stop: Option<Py<Stop>>,
) -> PyResult<String> {
    let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
        wrong(format!("no figure `{name}`: wellspring.sim.figures() shows what there is"))
    })?;
    let scale = Scale { quick, sessions: None, seeds };
    // Threads of its own: those of a pool for the whole process are not there after `fork`.
    let pool = ThreadPoolBuilder::new().build().map_err(wrong)?;
    interruptible(py, || {
        pool.install(|| {
            let report = |_, _, _| heed(stop.as_ref());
            let mut lab = Lab::new(scale, Output::default(), &report);
            figure.reproduce(&mut lab).map(|()| record(figure, &lab).to_string())
        })
    })
}

fn record(figure: &Figure, lab: &Lab<'_>) -> serde_json::Value {
    json!({
        "figure": figure.name,
        "title": figure.title,
        "seeds": lab.scope().seeds,
        "checks": lab.checks,
        "plots": lab.plots,
    })
}
