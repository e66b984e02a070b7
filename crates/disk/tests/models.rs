//! Every shipped model does what it states.

use fsdyno_disk::{figure, shipped};

/// How far a figure may be from what is stated: data sheets state what a disk does at its best.
const TOLERANCE: f64 = 0.25;

#[test]
fn every_model_does_what_it_states() {
    let mut wrong = Vec::new();
    for (name, _) in shipped::ALL {
        let model = shipped::find(name).unwrap();
        for stated in &model.stated {
            let figure = figure::ALL.iter().find(|it| it.name == stated.name).unwrap();
            let found = (figure.find)(&model).unwrap();
            let ratio = found / stated.value;
            println!("{name} {}: {found:.2}, stated {} ({ratio:.3})", stated.name, stated.value);
            if (ratio - 1.0).abs() > TOLERANCE {
                wrong.push(format!("{name} {}: {found:.2}, not {}", stated.name, stated.value));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
