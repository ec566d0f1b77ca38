//! Loads many rows in the order of their keys into a new table, and shows the progress.

use std::time::Instant;

use ese_engine::{
    BulkLoadOptions, ColumnDefinition, ColumnType, DatabaseOptions, Error, IndexDefinition, Instance,
    InstanceOptions, Result, TableDefinition, Value,
};

const ROWS: i32 = 1_000_000;

fn main() -> Result<()> {
    let directory = new_directory("bulk-load");
    let options = InstanceOptions::new(&directory)?.circular_log(true);
    let instance = Instance::open(options)?;
    let database = instance.create_database(&directory.join("data.edb"), &DatabaseOptions::default())?;
    let mut session = instance.session();
    let definition = TableDefinition {
        name: "Numbers".into(),
        columns: vec![
            ColumnDefinition::new("Key", ColumnType::Long),
            ColumnDefinition::new("Text", ColumnType::Text),
        ],
        indexes: vec![
            IndexDefinition::new("ByKey", &["Key"]).primary(),
            IndexDefinition::new("ByText", &["Text"]),
        ],
        ..TableDefinition::default()
    };
    let began = Instant::now();
    let mut load = session.bulk_load(&database, &definition, BulkLoadOptions::default())?;
    let [key, text] = ["Key", "Text"].map(|name| load.column(name).expect("the column was just defined"));
    for number in 0..ROWS {
        load.push(&[(key, Value::Long(number)), (text, Value::Text(format!("number {number}")))])?;
    }
    // A row out of order is kept, and inserted at the end. With too many of them, each further one is refused, and
    // the load continues without it: a program can insert it after the load.
    match load.push(&[(key, Value::Long(-1)), (text, Value::Text("out of order".to_string()))]) {
        Err(Error::OutOfOrder) => eprintln!("a row out of order is skipped"),
        pushed => pushed?,
    }
    let done = load.finish_with(|progress| {
        if progress.pages % 500 == 0 {
            eprintln!("{} pages", progress.pages);
        }
        true
    })?;
    println!("loaded {} rows in {} pages, durable after {:?}", done.rows, done.pages, began.elapsed());
    drop(session);
    instance.shutdown()
}

/// A new directory for the files of the example.
fn new_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ese-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}
