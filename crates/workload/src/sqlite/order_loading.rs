//! The tables of an order entry, after the description of TPC-C at a tenth of its size: made and filled.
//! Orders are left to [`super::orders`]; none exists after loading.

use rusqlite::Connection;

use super::database::failed;
use super::settings::Settings;
use crate::contents::PayloadBuffer;
use crate::failure::check_interrupt;
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;
/// Customers of a district.
pub const CUSTOMERS: u64 = 300;
/// Items, the same for all warehouses.
pub const ITEMS: u64 = 10_000;
/// About what a warehouse takes with its stock, its customers and a share of the items, in bytes.
pub const WAREHOUSE_BYTES: u64 = 6 << 20;
/// Bytes of text in a row of each table.
const CUSTOMER_BYTES: u64 = 400;
const STOCK_BYTES: u64 = 200;
const ITEM_BYTES: u64 = 50;
/// What is on stock of each item at first.
pub const FIRST_QUANTITY: i64 = 50;

const TABLES: &str = "
CREATE TABLE warehouse (id INTEGER PRIMARY KEY, received INTEGER NOT NULL);
CREATE TABLE district (id INTEGER PRIMARY KEY, received INTEGER NOT NULL, next_order INTEGER NOT NULL);
CREATE TABLE customer (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, payments INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE stock (id INTEGER PRIMARY KEY, quantity INTEGER NOT NULL, sold INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, carrier INTEGER, line_count INTEGER NOT NULL);
CREATE INDEX orders_of_customer ON orders (customer, id);
CREATE TABLE new_order (id INTEGER PRIMARY KEY);
CREATE TABLE order_line (id INTEGER PRIMARY KEY, item INTEGER NOT NULL, quantity INTEGER NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE history (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER NOT NULL);
";

/// The price of an item in cents, 1.00 … 100.00.
#[must_use]
pub fn price(item: u64) -> i64 {
    (100 + item * 7919 % 9901) as i64
}

/// Makes the tables and fills them, one transaction for each warehouse and one for the items.
///
/// # Errors
/// The statement that failed, or a request to stop.
pub fn load(
    connection: &Connection,
    settings: &Settings,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    connection.execute_batch(TABLES).map_err(failed("CREATE TABLE in"))?;
    let mut filler = Filler {
        connection,
        buffer: PayloadBuffer::new(settings.payload, settings.seed, CUSTOMER_BYTES as usize),
    };
    filler.transaction(recorder, |filler, recorder| {
        let items = (ITEMS, ITEM_BYTES, "INSERT INTO item VALUES (?1, ?2, ?3)");
        filler.fill(items, 0, price, recorder)
    })?;
    for warehouse in 0..settings.warehouses {
        check_interrupt()?;
        filler.transaction(recorder, |filler, recorder| {
            let text = "INSERT INTO warehouse VALUES (?1, 0)";
            filler.plain(text, warehouse..warehouse + 1, recorder)?;
            let districts = warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS;
            filler.plain("INSERT INTO district VALUES (?1, 0, 1)", districts, recorder)?;
            let customers = DISTRICTS * CUSTOMERS;
            let text = "INSERT INTO customer VALUES (?1, ?2, 0, ?3)";
            let table = (customers, CUSTOMER_BYTES, text);
            filler.fill(table, warehouse * customers, |_| 0, recorder)?;
            let table = (ITEMS, STOCK_BYTES, "INSERT INTO stock VALUES (?1, ?2, 0, ?3)");
            filler.fill(table, warehouse * ITEMS, |_| FIRST_QUANTITY, recorder)
        })?;
    }
    Ok(())
}

struct Filler<'c> {
    connection: &'c Connection,
    buffer: PayloadBuffer,
}

impl Filler<'_> {
    fn transaction(
        &mut self,
        recorder: &mut Recorder,
        body: impl FnOnce(&mut Self, &mut Recorder) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed("BEGIN on"))?;
        body(self, recorder)?;
        recorder.begin();
        self.connection.execute_batch("COMMIT").map_err(failed("COMMIT on"))?;
        recorder.end(Operation::Commit);
        Ok(())
    }

    /// Rows of numbers alone.
    fn plain(
        &self,
        text: &'static str,
        ids: std::ops::Range<u64>,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let mut insert = self.connection.prepare(text).map_err(failed(text))?;
        recorder.begin();
        for id in ids {
            insert.execute([id as i64]).map_err(failed(text))?;
            recorder.end(Operation::Update);
        }
        Ok(())
    }

    /// A table's rows, with a number and contents in each.
    fn fill(
        &mut self,
        (count, size_bytes, text): (u64, u64, &'static str),
        first: u64,
        number: impl Fn(u64) -> i64,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let owner = name_hash(text.as_bytes());
        let mut insert = self.connection.prepare(text).map_err(failed(text))?;
        for id in first..first + count {
            let data = self.buffer.bytes(content_key(owner, id, 0), 0, size_bytes);
            recorder.begin();
            insert.execute((id as i64, number(id), data)).map_err(failed(text))?;
            recorder.end(Operation::Update);
            recorder.bytes += size_bytes;
        }
        Ok(())
    }
}
