//! What must be true of the tables of the order entry after any number of whole transactions: sums that
//! several tables keep, and as many orders, payments and deliveries as were committed. A transaction that
//! was lost or half undone breaks at least one of them.

use rusqlite::Connection;

use super::database::{FILE, failed};
use super::orders::Done;

/// What is compared: a name, and a query for the two sides, which must be equal.
const CONDITIONS: &[(&str, &str)] = &[
    (
        "what a warehouse received and what its districts did",
        "SELECT coalesce(sum(received), 0), (SELECT coalesce(sum(received), 0) FROM district) FROM warehouse",
    ),
    (
        "what warehouses received and what the history tells",
        "SELECT coalesce(sum(received), 0), (SELECT coalesce(sum(amount), 0) FROM history) FROM warehouse",
    ),
    (
        "the numbers that districts gave to orders and the orders",
        "SELECT coalesce(sum(next_order - 1), 0), (SELECT count(*) FROM orders) FROM district",
    ),
    (
        "the lines that orders count and the lines",
        "SELECT coalesce(sum(line_count), 0), (SELECT count(*) FROM order_line) FROM orders",
    ),
    (
        "orders without a carrier and open orders",
        "SELECT count(*), (SELECT count(*) FROM new_order) FROM orders WHERE carrier IS NULL",
    ),
    (
        "what the stock sold and what lines say",
        "SELECT coalesce(sum(sold), 0), (SELECT coalesce(sum(quantity), 0) FROM order_line) FROM stock",
    ),
    (
        "the balance of customers and what was delivered but not paid",
        "SELECT coalesce(sum(balance), 0), \
         (SELECT coalesce(sum(l.amount), 0) FROM order_line l JOIN orders o ON o.id = l.id / 16 \
          WHERE o.carrier IS NOT NULL) - (SELECT coalesce(sum(amount), 0) FROM history) FROM customer",
    ),
];

/// The conditions that do not hold, one sentence each.
///
/// # Errors
/// The query that failed.
pub fn faults(connection: &Connection, done: Done) -> anyhow::Result<Vec<String>> {
    let pair = |text: &'static str| -> anyhow::Result<(i64, i64)> {
        let row = connection.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?)));
        row.map_err(failed("check the orders in"))
    };
    let mut faults = Vec::new();
    let mut compare = |name: &str, left: i64, right: i64| {
        if left != right {
            faults.push(format!("{FILE}: {name} differ: {left} and {right}"));
        }
    };
    for (name, text) in CONDITIONS {
        let (left, right) = pair(text)?;
        compare(name, left, right);
    }
    let (orders, payments) =
        pair("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM history)")?;
    let (delivered, _) = pair("SELECT count(*), 0 FROM orders WHERE carrier IS NOT NULL")?;
    compare("orders and those that were committed", orders, done.orders as i64);
    compare("payments and those that were committed", payments, done.payments as i64);
    compare("deliveries and those that were committed", delivered, done.delivered as i64);
    Ok(faults)
}
