//! The mix of transactions over the tables of [`super::order_loading`]: new-order 45 %, payment 43 %,
//! order-status, delivery and stock-level 4 % each. Which of them is next, and for whom, is drawn; what
//! is timed around the mix is left to [`super::run`].

use fsdyno_sys::clock::now_ns;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Statement};

use super::database::failed;
use super::order_loading::{CUSTOMERS, DISTRICTS, ITEMS};
use crate::failure::check_interrupt;
use crate::recorder::{Operation, Recorder};
use crate::rng::{Draw as _, Xoshiro};

/// Orders of a district have numbers below this.
const ORDER_LIMIT: i64 = 1 << 32;
/// Lines of an order have numbers below this.
const LINE_LIMIT: i64 = 16;
/// Most lines of an order, and least.
const LINES: (u64, u64) = (5, 15);
/// Stock is refilled by [`REFILL`] when less than this would remain.
const LOW_QUANTITY: i64 = 10;
const REFILL: i64 = 91;
/// Orders that stock-level looks at.
const RECENT_ORDERS: i64 = 20;

/// What a job has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Orders entered.
    pub orders: u64,
    /// Payments received.
    pub payments: u64,
    /// Orders delivered.
    pub delivered: u64,
    /// Transactions of all kinds.
    pub transactions: u64,
}

impl Done {
    /// Adds what another job has done.
    pub fn add(&mut self, other: Done) {
        self.orders += other.orders;
        self.payments += other.payments;
        self.delivered += other.delivered;
        self.transactions += other.transactions;
    }
}

/// Declares the prepared statements and their texts.
macro_rules! statements {
    ($($name:ident: $text:literal,)*) => {
        struct Statements<'c> { $($name: Prepared<'c>,)* }

        impl<'c> Statements<'c> {
            fn new(connection: &'c Connection) -> anyhow::Result<Self> {
                Ok(Statements { $($name: Prepared::new(connection, $text)?,)* })
            }
        }
    };
}

statements! {
    begin: "BEGIN on",
    begin_immediate: "BEGIN IMMEDIATE on",
    commit: "COMMIT on",
    next_order: "SELECT next_order FROM district WHERE id = ?1",
    count_order: "UPDATE district SET next_order = next_order + 1 WHERE id = ?1",
    customer: "SELECT balance, data FROM customer WHERE id = ?1",
    item: "SELECT price FROM item WHERE id = ?1",
    stock: "SELECT quantity FROM stock WHERE id = ?1",
    take: "UPDATE stock SET quantity = ?2, sold = sold + ?3 WHERE id = ?1",
    order: "INSERT INTO orders VALUES (?1, ?2, NULL, ?3)",
    new_order: "INSERT INTO new_order VALUES (?1)",
    line: "INSERT INTO order_line VALUES (?1, ?2, ?3, ?4)",
    pay_warehouse: "UPDATE warehouse SET received = received + ?2 WHERE id = ?1",
    pay_district: "UPDATE district SET received = received + ?2 WHERE id = ?1",
    pay: "UPDATE customer SET balance = balance - ?2, payments = payments + 1 WHERE id = ?1",
    history: "INSERT INTO history (customer, amount) VALUES (?1, ?2)",
    last_order: "SELECT max(id) FROM orders WHERE customer = ?1",
    lines: "SELECT count(*), sum(amount) FROM order_line WHERE id BETWEEN ?1 AND ?2",
    oldest: "SELECT min(id) FROM new_order WHERE id BETWEEN ?1 AND ?2",
    deliver: "DELETE FROM new_order WHERE id = ?1",
    carrier: "UPDATE orders SET carrier = ?2 WHERE id = ?1",
    of_order: "SELECT customer FROM orders WHERE id = ?1",
    charge: "UPDATE customer SET balance = balance + ?2 WHERE id = ?1",
    low_stock: "SELECT count(DISTINCT l.item) FROM order_line l JOIN stock s ON s.id = ?3 + l.item \
                WHERE l.id BETWEEN ?1 AND ?2 AND s.quantity < ?4",
}

/// A statement with its text, for errors.
struct Prepared<'c> {
    statement: Statement<'c>,
    text: &'static str,
}

impl<'c> Prepared<'c> {
    fn new(connection: &'c Connection, text: &'static str) -> anyhow::Result<Self> {
        // The ` on` of those without a table is for messages alone.
        let statement = connection.prepare(text.strip_suffix(" on").unwrap_or(text));
        Ok(Prepared { statement: statement.map_err(failed(text))?, text })
    }

    fn run(&mut self, params: impl Params, operation: Operation, it: &mut Recorder) -> Outcome {
        self.statement.execute(params).map_err(failed(self.text))?;
        it.end(operation);
        Ok(())
    }

    fn change(&mut self, params: impl Params, recorder: &mut Recorder) -> Outcome {
        self.run(params, Operation::Update, recorder)
    }

    fn ask<T>(
        &mut self,
        params: impl Params,
        recorder: &mut Recorder,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> anyhow::Result<T> {
        let answer = self.statement.query_row(params, read).map_err(failed(self.text))?;
        recorder.end(Operation::Query);
        Ok(answer)
    }

    fn number(&mut self, params: impl Params, recorder: &mut Recorder) -> anyhow::Result<i64> {
        self.ask(params, recorder, |row| row.get(0))
    }

    /// `None` where there is no row, or nothing in it.
    fn maybe(&mut self, params: impl Params, it: &mut Recorder) -> anyhow::Result<Option<i64>> {
        let answer = self.statement.query_row(params, |row| row.get::<_, Option<i64>>(0));
        let answer = answer.optional().map_err(failed(self.text))?;
        it.end(Operation::Query);
        Ok(answer.flatten())
    }
}

type Outcome = anyhow::Result<()>;

/// One client of the order entry.
pub struct Client<'c> {
    statements: Statements<'c>,
    rng: Xoshiro,
    warehouses: u64,
    done: Done,
}

impl<'c> Client<'c> {
    /// A client whose draws begin with `seed`.
    ///
    /// # Errors
    /// A statement that cannot be prepared.
    pub fn new(connection: &'c Connection, warehouses: u64, seed: u64) -> anyhow::Result<Self> {
        let statements = Statements::new(connection)?;
        Ok(Client { statements, rng: Xoshiro::new(seed), warehouses, done: Done::default() })
    }

    /// Runs `count` transactions.
    ///
    /// # Errors
    /// The statement that failed, or a request to stop.
    pub fn run(
        &mut self,
        count: u64,
        recorder: &mut Recorder,
        mut advance: impl FnMut(u64),
    ) -> anyhow::Result<Done> {
        for _ in 0..count {
            check_interrupt()?;
            let share = self.rng.below(100);
            let start_ns = now_ns();
            recorder.begin();
            match share {
                0..45 => self.enter_order(recorder)?,
                45..88 => self.pay(recorder)?,
                88..92 => self.order_status(recorder)?,
                92..96 => self.deliver(recorder)?,
                _ => self.stock_level(recorder)?,
            }
            recorder.record_ns(Operation::Task, now_ns() - start_ns);
            self.done.transactions += 1;
            advance(1);
        }
        Ok(self.done)
    }

    fn district(&mut self) -> u64 {
        self.rng.below(self.warehouses * DISTRICTS)
    }

    fn customer_of(&mut self, district: u64) -> i64 {
        (district * CUSTOMERS + self.rng.below(CUSTOMERS)) as i64
    }

    /// Reads a customer and the district's number, enters an order of 5 … 15 lines and takes them from
    /// the stock.
    fn enter_order(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let district = self.district();
        let customer = self.customer_of(district);
        let line_count = LINES.0 + self.rng.below(LINES.1 - LINES.0 + 1);
        let s = &mut self.statements;
        s.begin_immediate.run([], Operation::Lock, recorder)?;
        s.customer.ask([customer], recorder, |_| Ok(()))?;
        let number = s.next_order.number([district as i64], recorder)?;
        s.count_order.change([district as i64], recorder)?;
        let order = district as i64 * ORDER_LIMIT + number;
        s.order.change((order, customer, line_count as i64), recorder)?;
        s.new_order.change([order], recorder)?;
        for line in 0..line_count {
            let item = self.rng.below(ITEMS);
            let wanted = 1 + self.rng.below(10) as i64;
            let place = (district / DISTRICTS * ITEMS + item) as i64;
            let price = s.item.number([item as i64], recorder)?;
            let quantity = s.stock.number([place], recorder)?;
            let refill = if quantity - wanted < LOW_QUANTITY { REFILL } else { 0 };
            s.take.change((place, quantity - wanted + refill, wanted), recorder)?;
            let row = (order * LINE_LIMIT + line as i64, item as i64, wanted, wanted * price);
            s.line.change(row, recorder)?;
        }
        s.commit.run([], Operation::Commit, recorder)?;
        self.done.orders += 1;
        Ok(())
    }

    /// A customer pays 1.00 … 5000.00; warehouse and district count it.
    fn pay(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let district = self.district();
        let customer = self.customer_of(district);
        let amount = 100 + self.rng.below(499_901) as i64;
        let s = &mut self.statements;
        s.begin_immediate.run([], Operation::Lock, recorder)?;
        s.pay_warehouse.change(((district / DISTRICTS) as i64, amount), recorder)?;
        s.pay_district.change((district as i64, amount), recorder)?;
        s.customer.ask([customer], recorder, |_| Ok(()))?;
        s.pay.change((customer, amount), recorder)?;
        s.history.change((customer, amount), recorder)?;
        s.commit.run([], Operation::Commit, recorder)?;
        self.done.payments += 1;
        Ok(())
    }

    /// Reads a customer and the lines of the last order.
    fn order_status(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let district = self.district();
        let customer = self.customer_of(district);
        let s = &mut self.statements;
        s.begin.run([], Operation::Lock, recorder)?;
        s.customer.ask([customer], recorder, |_| Ok(()))?;
        if let Some(order) = s.last_order.maybe([customer], recorder)? {
            let lines = (order * LINE_LIMIT, order * LINE_LIMIT + LINE_LIMIT - 1);
            s.lines.number(lines, recorder)?;
        }
        s.commit.run([], Operation::Commit, recorder)
    }

    /// Delivers the oldest open order of each district of a warehouse and charges its customer.
    fn deliver(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let warehouse = self.rng.below(self.warehouses);
        let carrier = 1 + self.rng.below(10) as i64;
        let s = &mut self.statements;
        s.begin_immediate.run([], Operation::Lock, recorder)?;
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let first = district as i64 * ORDER_LIMIT;
            let Some(order) = s.oldest.maybe((first, first + ORDER_LIMIT - 1), recorder)? else {
                continue;
            };
            s.deliver.change([order], recorder)?;
            s.carrier.change((order, carrier), recorder)?;
            let customer = s.of_order.number([order], recorder)?;
            let lines = (order * LINE_LIMIT, order * LINE_LIMIT + LINE_LIMIT - 1);
            let amount: i64 = s.lines.ask(lines, recorder, |row| row.get(1))?;
            s.charge.change((customer, amount), recorder)?;
            self.done.delivered += 1;
        }
        s.commit.run([], Operation::Commit, recorder)
    }

    /// Counts the items of a district's last 20 orders that are low on stock.
    fn stock_level(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        let district = self.district();
        let threshold = 10 + self.rng.below(11) as i64;
        let s = &mut self.statements;
        s.begin.run([], Operation::Lock, recorder)?;
        let next = s.next_order.number([district as i64], recorder)?;
        let order = |number: i64| (district as i64 * ORDER_LIMIT + number) * LINE_LIMIT;
        let range = (order((next - RECENT_ORDERS).max(0)), order(next) - 1);
        let stock = (district / DISTRICTS * ITEMS) as i64;
        s.low_stock.number((range.0, range.1, stock, threshold), recorder)?;
        s.commit.run([], Operation::Commit, recorder)
    }
}
