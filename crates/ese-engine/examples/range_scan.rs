//! Reads the records of a range of keys in order.

use ese_engine::{
    ColumnDefinition, ColumnType, CommitMode, DatabaseOptions, IndexDefinition, Instance, InstanceOptions,
    Result, SeekRelation, TableDefinition, Value,
};

fn main() -> Result<()> {
    let directory = new_directory("range-scan");
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
    for number in 0..1000 {
        let row = [(key, Value::Long(number)), (text, Value::Text(format!("number {number}")))];
        table.insert(&mut session, &row)?;
    }
    session.commit(CommitMode::Durable)?;

    // A transaction sees one state of the table, regardless of what other sessions do.
    session.begin()?;
    let mut found = table.seek(&mut session, &[Value::Long(100)], SeekRelation::GreaterOrEqual)?;
    table.set_range(&[Value::Long(110)], false)?;
    while found {
        println!("{:?}: {:?}", table.get(&mut session, key)?, table.get(&mut session, text)?);
        found = table.next(&mut session)?;
    }
    session.commit(CommitMode::Lazy)?;
    drop((table, session));
    instance.shutdown()
}

/// A new directory for the files of the example.
fn new_directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("ese-engine-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the directory for temporary files can be written");
    directory
}
