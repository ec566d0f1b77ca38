//! Loads many records in the order of their keys, with many records in each transaction and with lazy commits.

use ese_engine::{
    ColumnDefinition, ColumnType, CommitMode, CreateOptions, IndexDefinition, Instance, InstanceOptions,
    Result, TableDefinition, Value,
};

const RECORDS: i32 = 100_000;
const PER_TRANSACTION: usize = 1_000;

fn main() -> Result<()> {
    let directory = new_directory("bulk-load");
    let options = InstanceOptions { circular: true, ..InstanceOptions::new(&directory)? };
    let instance = Instance::open(options)?;
    let database = instance.create_database(&directory.join("data.edb"), &CreateOptions::default())?;
    let mut session = instance.session();
    let definition = TableDefinition {
        name: "Numbers".into(),
        columns: vec![
            ColumnDefinition::new("Key", ColumnType::Long),
            ColumnDefinition::new("Text", ColumnType::Text),
        ],
        indexes: vec![IndexDefinition::new("ByKey", &["Key"]).primary()],
        ..TableDefinition::default()
    };
    session.begin()?;
    session.create_table(&database, &definition)?;
    session.commit(CommitMode::Durable)?;

    let mut table = session.open_table(&database, "Numbers")?;
    let [key, text] = ["Key", "Text"].map(|name| table.column(name).expect("the column was just created"));
    let keys: Vec<i32> = (0..RECORDS).collect();
    for chunk in keys.chunks(PER_TRANSACTION) {
        session.begin()?;
        for number in chunk {
            let row = [(key, Value::Long(*number)), (text, Value::Text(format!("number {number}")))];
            table.insert(&mut session, &row)?;
        }
        // A crash may undo the last of these commits, but never a commit without all later ones.
        session.commit(CommitMode::Lazy)?;
    }
    // One flush at the end makes all commits durable.
    instance.flush()?;
    println!("loaded {RECORDS} records");
    drop((table, session));
    instance.shutdown()
}

/// A new directory for the files of the example.
fn new_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ese-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}
