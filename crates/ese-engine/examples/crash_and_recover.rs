//! Drops an instance without a shutdown, and recovers the committed records.

use ese_engine::{
    ColumnDefinition, ColumnType, CommitMode, DatabaseOptions, IndexDefinition, Instance, InstanceOptions,
    Result, SeekRelation, TableDefinition, Value,
};

fn main() -> Result<()> {
    let directory = new_directory("crash-and-recover");
    let path = directory.join("data.edb");
    let definition = TableDefinition {
        name: "Numbers".into(),
        columns: vec![
            ColumnDefinition::new("Key", ColumnType::Long),
            ColumnDefinition::new("Text", ColumnType::Text),
        ],
        indexes: vec![IndexDefinition::new("ByKey", &["Key"]).primary()],
        ..TableDefinition::default()
    };
    {
        let instance = Instance::open(InstanceOptions::new(&directory)?)?;
        let database = instance.create_database(&path, &DatabaseOptions::default())?;
        let mut session = instance.session();
        session.begin()?;
        session.create_table(&database, &definition)?;
        let mut table = session.open_table(&database, "Numbers")?;
        let [key, text] =
            ["Key", "Text"].map(|name| table.column(name).expect("the column was just created"));
        table.insert(&mut session, &[(key, Value::Long(1)), (text, Value::Text("durable".into()))])?;
        session.commit(CommitMode::Durable)?;
        // The instance is dropped without a shutdown: the database file lacks the changes, the log has them.
    }
    let instance = Instance::open(InstanceOptions::new(&directory)?)?;
    println!("recovery: {:?}", instance.recovery());
    let database = instance.attach(&path, 256)?;
    let mut session = instance.session();
    let mut table = session.open_table(&database, "Numbers")?;
    assert!(table.seek(&mut session, &[Value::Long(1)], SeekRelation::Equal)?, "a durable commit survives");
    println!("the record is there");
    drop((table, session));
    instance.shutdown()
}

/// A new directory for the files of the example.
fn new_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ese-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}
