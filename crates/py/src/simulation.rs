//! Simulations: plans of scenarios, and one run of one of them at a time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value, json};
use wellspring_experiments::record::Reason;
use wellspring_experiments::results::RunRow;
use wellspring_experiments::run::{Outcome, run};
use wellspring_experiments::scenario::catalogue::{self, SCENARIOS};
use wellspring_experiments::scenario::{Plan, Scenario};

/// Columns of a run that are not of the result: its parameters have columns of their own.
const NOT_COLUMNS: [&str; 1] = ["parameters"];

/// The exception for a scenario that cannot be run.
pub fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{error:#}"))
}

/// Names of the scenarios that come with Wellspring, and what each shows.
#[pyfunction]
pub fn scenarios() -> PyResult<Vec<(String, String)>> {
    let about = |text: &str| -> PyResult<String> {
        let scenarios = Plan::parse(text).and_then(|plan| plan.scenarios()).map_err(wrong)?;
        Ok(scenarios.first().map_or_else(String::new, |one| one.about.clone()))
    };
    SCENARIOS.iter().map(|(name, text)| Ok(((*name).to_owned(), about(text)?))).collect()
}

/// The text of a scenario that comes with Wellspring.
#[pyfunction]
pub fn scenario_text(name: &str) -> PyResult<&'static str> {
    catalogue::text(name).map_err(|_| {
        wrong(format!("no scenario `{name}`: wellspring.sim.scenarios() shows what there is"))
    })
}

/// The scenarios of a plan as JSON: of each its text, hash and parameters. The plan is a scenario's
/// name, a file's path or text in TOML; `set` are keys and values in TOML.
#[pyfunction]
#[pyo3(signature = (name=None, path=None, text=None, set=Vec::new()))]
pub fn plan(
    py: Python<'_>,
    name: Option<&str>,
    path: Option<&str>,
    text: Option<&str>,
    set: Vec<(String, String)>,
) -> PyResult<String> {
    let mut plan = match (name, path, text) {
        (Some(name), None, None) => Plan::parse(scenario_text(name)?),
        (None, Some(path), None) => Plan::read(Path::new(path)),
        // Of a mapping: files are named from the current folder, as by `set`.
        (None, None, Some(text)) => Plan::parse_in(text, Path::new("")),
        _ => return Err(PyValueError::new_err("give a name, a path or a text")),
    }
    .map_err(wrong)?;
    for (key, value) in set {
        plan.set(&key, &value).map_err(wrong)?;
    }
    let scenarios = py.detach(|| plan.scenarios()).map_err(wrong)?;
    let scenarios = scenarios.iter().map(|scenario| {
        Ok(json!({
            "text": text_of(scenario)?,
            "hash": scenario.hash(),
            "name": scenario.name,
            "seeds": scenario.run.seeds,
            "swept": scenario.swept.iter().map(|(key, _)| key).collect::<Vec<_>>(),
            "parameters": parameters(scenario)?,
        }))
    });
    Ok(Value::Array(scenarios.collect::<PyResult<_>>()?).to_string())
}

/// A scenario in TOML, which is a plan of itself alone.
fn text_of(scenario: &Scenario) -> PyResult<String> {
    toml::to_string(scenario).map_err(wrong)
}

/// Every key of a scenario by its dotted name, but for its seeds.
fn parameters(scenario: &Scenario) -> PyResult<Map<String, Value>> {
    let mut flat = Map::new();
    flatten("", serde_json::to_value(scenario).map_err(wrong)?, &mut flat);
    for key in ["run.seeds", "about", "name"] {
        flat.remove(key);
    }
    Ok(flat)
}

fn flatten(prefix: &str, value: Value, flat: &mut Map<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let key = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(&key, value, flat);
            }
        }
        // What is not set has no column.
        Value::Null => {}
        Value::Array(list) => {
            flat.insert(prefix.to_owned(), Value::String(Value::Array(list).to_string()));
        }
        plain => {
            flat.insert(prefix.to_owned(), plain);
        }
    }
}

/// Ends runs in other threads.
#[pyclass(frozen, module = "wellspring")]
#[derive(Default)]
pub struct Stop(AtomicBool);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Stop::default()
    }

    /// Ends all runs that were given this, with `RuntimeError`.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An interruption on its way out of a run.
struct Interrupted(PyErr);

/// Ends a run if Ctrl-C was pressed, or `stop` was set where its caller waits in another thread. A run has no other
/// way out than to unwind.
pub fn heed(stop: Option<&Py<Stop>>) {
    let stopped = stop.is_some_and(|stop| stop.get().0.load(Ordering::Relaxed));
    let interrupted = match stopped {
        true => Some(PyRuntimeError::new_err("the run was stopped")),
        false => Python::try_attach(|py| py.check_signals().err()).flatten(),
    };
    if let Some(error) = interrupted {
        resume_unwind(Box::new(Interrupted(error)));
    }
}

/// What comes of simulating without the interpreter's lock, unless [`heed`] ends it.
///
/// # Errors
/// The run failed or was ended.
pub fn interruptible<T: Send, E: std::fmt::Display + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(outcome) => outcome.map_err(wrong),
        Err(payload) => match payload.downcast::<Interrupted>() {
            Ok(interrupted) => Err(interrupted.0),
            Err(_) => {
                let text = "the simulator failed: please report it with the scenario and its seed";
                Err(PyRuntimeError::new_err(text))
            }
        },
    }
}

/// Runs one scenario with one seed: its row as JSON, and on request its flows and samples by column.
#[pyfunction]
#[pyo3(signature = (text, seed, flows=false, stop=None))]
pub fn run_scenario<'py>(
    py: Python<'py>,
    text: &str,
    seed: u64,
    flows: bool,
    stop: Option<Py<Stop>>,
) -> PyResult<(String, Option<Bound<'py, PyDict>>, Bound<'py, PyDict>)> {
    let plan = Plan::parse(text).map_err(wrong)?.without_sweep();
    let mut scenarios = plan.scenarios().map_err(wrong)?;
    let mut scenario = scenarios.pop().ok_or_else(|| PyValueError::new_err("no scenario"))?;
    scenario.run.seeds = vec![seed];
    let outcome = interruptible(py, || run(&scenario, seed, &mut |_| heed(stop.as_ref())))?;
    let row = row(&scenario, &outcome)?.to_string();
    let flows = flows.then(|| flow_columns(py, &outcome)).transpose()?;
    Ok((row, flows, queue_columns(py, &outcome)?))
}

fn row(scenario: &Scenario, outcome: &Outcome) -> PyResult<Value> {
    let mut row = serde_json::to_value(RunRow::new(scenario, outcome)).map_err(wrong)?;
    if let Some(columns) = row.as_object_mut() {
        NOT_COLUMNS.iter().for_each(|column| drop(columns.remove(*column)));
    }
    Ok(row)
}

fn flow_columns<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    let flows = &outcome.flows;
    let numbers = |of: &dyn Fn(usize) -> u64| PyList::new(py, (0..flows.len()).map(of));
    let reals = |of: &dyn Fn(usize) -> f64| PyList::new(py, (0..flows.len()).map(of));
    let words = |of: &dyn Fn(usize) -> &'static str| PyList::new(py, (0..flows.len()).map(of));
    columns.set_item("protocol", words(&|at| flows[at].protocol.as_str())?)?;
    columns.set_item("kind", words(&|at| flows[at].kind)?)?;
    columns.set_item("host", numbers(&|at| flows[at].host.into())?)?;
    columns.set_item("peer", numbers(&|at| flows[at].peer.into())?)?;
    columns.set_item("bytes", numbers(&|at| flows[at].bytes)?)?;
    columns.set_item("start_s", reals(&|at| flows[at].start)?)?;
    columns.set_item("end_s", reals(&|at| flows[at].end.unwrap_or(f64::NAN))?)?;
    columns.set_item("goodput_gbps", reals(&|at| flows[at].goodput() / 1e9)?)?;
    columns.set_item("trimmed", numbers(&|at| flows[at].account.trimmed)?)?;
    columns.set_item("redundant", numbers(&|at| flows[at].account.redundant)?)?;
    columns.set_item("decoded_blocks", numbers(&|at| flows[at].account.decoded_blocks.into())?)?;
    columns.set_item("reason", words(&|at| flows[at].reason.map_or("", Reason::as_str))?)?;
    Ok(columns)
}

/// Samples of queues, if the scenario asks for them (`run.sample`).
fn queue_columns<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let samples = &outcome.series.samples;
    let all =
        || samples.iter().flat_map(|sample| sample.queues.iter().map(|queue| (sample.at, *queue)));
    let columns = PyDict::new(py);
    columns.set_item("at_s", PyList::new(py, all().map(|(at, _)| at).collect::<Vec<_>>())?)?;
    columns.set_item("port", PyList::new(py, all().map(|(_, q)| q.0).collect::<Vec<_>>())?)?;
    columns.set_item("packets", PyList::new(py, all().map(|(_, q)| q.1).collect::<Vec<_>>())?)?;
    columns.set_item("bytes", PyList::new(py, all().map(|(_, q)| q.2).collect::<Vec<_>>())?)?;
    columns.set_item("control", PyList::new(py, all().map(|(_, q)| q.3).collect::<Vec<_>>())?)?;
    Ok(columns)
}
