//! Uses the engine inside a program: creates a database, inserts a record and reads it.

use ese_engine::{
    ColumnDefinition, ColumnType, CommitMode, DatabaseOptions, IndexDefinition, Instance, InstanceOptions,
    Result, SeekRelation, TableDefinition, Value,
};

fn main() -> Result<()> {
    let directory = new_directory("embed");
    let instance = Instance::open(InstanceOptions::new(&directory)?)?;
    let database = instance.create_database(&directory.join("data.edb"), &DatabaseOptions::default())?;
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
    let mut table = session.open_table(&database, "Numbers")?;
    let [key, text] = ["Key", "Text"].map(|name| table.column(name).expect("the column was just created"));
    table.insert(&mut session, &[(key, Value::Long(1)), (text, Value::Text("one".into()))])?;
    session.commit(CommitMode::Durable)?;

    if table.seek(&mut session, &[Value::Long(1)], SeekRelation::Equal)? {
        println!("1 is {:?}", table.get(&mut session, text)?);
    }
    drop((table, session));
    instance.shutdown()
}

/// A new directory for the files of the example.
fn new_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ese-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}
