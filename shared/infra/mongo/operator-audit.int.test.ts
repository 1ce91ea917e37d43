import { type ClientSession, MongoServerError } from 'mongodb';
import t from 'tap';
import { accounts } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { newId } from '#shared/kernel/ids.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { linked, type StoredRow } from './audit-chain.ts';
import { CLUSTER_KEYS, clusterHash, openLogHashes } from './cluster-key.ts';
import { AUDIT_PAGE, type AuditFilter, readAuditPage } from './operations/audit.ts';
import {
  type AuditRow,
  actAsOperator,
  OPERATOR_AUDIT,
  operatorAudit,
  verifyAudit,
  writeAudit,
} from './operator-audit.ts';

const mongo = await openTestMongo(t);
const stored = mongo.db.collection<StoredRow>(OPERATOR_AUDIT);
const ACT = { operator: 'binh', reason: 'a test', now: Date.now() };
const LINE = { action: 'account.show', subject: 'a-1', detail: { n: 1, none: null, text: '"é"' } } as const;

const rows = () => stored.find({ _id: /^seq:/ }).sort({ _id: 1 }).toArray();
const verdict = async () => (await verifyAudit(mongo, null)).fault;

/** Writes a new chain of five rows and returns them. */
async function fiveRows(): Promise<StoredRow[]> {
  await stored.deleteMany({});
  for (let n = 0; n < 5; n++) await writeAudit(mongo, ACT, { ...LINE, subject: `a-${n}` });
  return rows();
}

/** Another database, with an audit of several pages. */
const pages = await openTestMongo(t);
await createIndexes(pages);
const NOW = Date.UTC(2026, 4, 4);
const ACTS = AUDIT_PAGE * 2 + 5;
/** Every third act has the time of the one before it. */
const timeOf = (n: number) => NOW + (n - (n % 3 === 0 ? 0 : 1)) * 1_000;

async function act(n: number): Promise<void> {
  const operator = n % 2 === 0 ? 'OPS_TOKEN' : 'ADMIN a-1';
  const action = n % 5 === 0 ? 'account.unlock' : 'account.show';
  await writeAudit(
    pages,
    { operator, reason: `r-${n}`, now: timeOf(n) },
    { action, subject: `s-${n % 7}`, detail: {} },
  );
}

for (let n = 0; n < ACTS; n += 1) await act(n);

t.test(
  'rows written at the same time get the numbers 1 to n, and each one names the hash of the row before it',
  async (t) => {
    const logged: AuditRow[] = [];
    const act = { ...ACT, committed: (row: AuditRow) => void logged.push(row) };
    await Promise.all(Array.from({ length: 20 }, (_, n) => writeAudit(mongo, act, { ...LINE, subject: `a-${n}` })));
    const all = await rows();
    t.strictSame(
      all.map(({ seq }) => seq),
      Array.from({ length: 20 }, (_, n) => n + 1),
    );
    for (const [n, row] of all.entries()) t.equal(row.previous, all[n - 1]?.hash ?? '0'.repeat(64));
    t.equal(new Set(all.map(({ subject }) => subject)).size, 20, 'each act has one row');
    const bySeq = logged.sort((a, b) => a.seq - b.seq);
    t.strictSame(bySeq, all, 'the rows are logged as they are stored');
    t.strictSame(await verifyAudit(mongo, null), {
      fault: null,
      intact: 20,
      head: { seq: 20, hash: all[19]?.hash },
    });
  },
);

t.test('a transaction that loses its number is repeated as a whole and takes the next one', async (t) => {
  await stored.deleteMany({});
  let runs = 0;
  await actAsOperator(mongo, ACT, async (session) => {
    runs += 1;
    await operatorAudit(mongo).findOne({}, { session });
    if (runs === 1) await writeAudit(mongo, ACT, { ...LINE, subject: 'winner' });
    return { result: undefined, line: { ...LINE, subject: 'loser' } };
  });
  t.equal(runs, 2);
  t.strictSame(
    (await rows()).map(({ seq, subject }) => [seq, subject]),
    [
      [1, 'winner'],
      [2, 'loser'],
    ],
  );
  t.equal(await verdict(), null);
});

t.test('a number that another transaction took before the insert repeats the transaction too', async (t) => {
  await stored.deleteMany({});
  let refused = 0;
  // A server may report the lost number as a duplicate key instead of a write conflict.
  const db = tappedDb(mongo, (insert, name) =>
    name !== 'insertOne'
      ? undefined
      : async (...args) => {
          refused += 1;
          if (refused === 1) throw new MongoServerError({ code: 11_000, keyPattern: { _id: 1 } });
          return insert(...args);
        },
  );
  await writeAudit({ ...mongo, db }, ACT, LINE);
  t.equal(refused, 2);
  t.match(await verifyAudit(mongo, null), { fault: null, intact: 1 });
});

t.test('a change that fails leaves no row and no gap', async (t) => {
  const before = await fiveRows();
  const failing = (session: ClientSession) =>
    accounts(mongo)
      .findOne({}, { session })
      .then(() => Promise.reject(new Error('refused')));
  await t.rejects(actAsOperator(mongo, ACT, failing), /refused/);
  await actAsOperator(mongo, ACT, async () => ({ result: 0, line: null }));
  t.strictSame(await rows(), before);
  await writeAudit(mongo, ACT, LINE);
  t.equal(await verdict(), null);
});

t.test('a process that dies at any write of an act leaves a chain in order', async (t) => {
  const { account } = await storeSignedIn(mongo);
  await stored.deleteMany({});
  const suspend = (on: Mongo) =>
    actAsOperator(on, ACT, async (session) => {
      await on.db.collection('accounts').updateOne({ email: account.email }, { $inc: { acts: 1 } }, { session });
      return { result: undefined, line: LINE };
    });
  for (let point = 1; point <= 3; point++) {
    for (const when of ['before', 'after'] as const) {
      await t.rejects(suspend(dyingProcess(mongo, point, when).mongo), /the process is dead/);
      t.equal(await verdict(), null, `${when} write ${point}`);
      await suspend(mongo);
    }
  }
  const changed = await mongo.db.collection('accounts').findOne({ email: account.email });
  t.equal((await rows()).length, changed?.acts, 'every change has its row');
  t.equal(await verdict(), null);
});

const BREAKS: Record<string, { break: (rows: StoredRow[]) => Promise<unknown>; fault: RegExp }> = {
  'an edited field': {
    break: ([, , third]) => stored.updateOne({ _id: third?._id ?? '' }, { $set: { operator: 'somebody-else' } }),
    fault: /^row 3 was altered/,
  },
  'an edited detail': {
    break: ([, , third]) => stored.updateOne({ _id: third?._id ?? '' }, { $set: { 'detail.n': 2 } }),
    fault: /^row 3 was altered/,
  },
  'an added field': {
    break: ([, , third]) => stored.updateOne({ _id: third?._id ?? '' }, { $set: { isApproved: true } }),
    fault: /^row 3 was altered/,
  },
  'an edited time': {
    break: ([, , third]) => stored.updateOne({ _id: third?._id ?? '' }, { $set: { at: new Date(0) } }),
    fault: /^row 3 was altered/,
  },
  'a deleted row': {
    break: ([, second]) => stored.deleteOne({ _id: second?._id ?? '' }),
    fault: /^row 2 is missing/,
  },
  'a deleted first row': {
    break: ([first]) => stored.deleteOne({ _id: first?._id ?? '' }),
    fault: /^row 1 is missing/,
  },
  'two rows that changed places': {
    async break([, second, third]) {
      await stored.deleteMany({ _id: { $in: [second?._id ?? '', third?._id ?? ''] } });
      await stored.insertMany([
        { ...third, _id: second?._id ?? '' },
        { ...second, _id: third?._id ?? '' },
      ]);
    },
    fault: /^row 2 was reordered/,
  },
  'an edited row with a fitting hash': {
    async break([first, second]) {
      const forged = linked({ ...second, operator: 'somebody-else' }, { seq: 1, hash: String(first?.hash) });
      await stored.replaceOne({ _id: second?._id ?? '' }, forged);
    },
    fault: /^row 3 does not continue row 2/,
  },
  'a row without a number': {
    break: ([first]) => stored.insertOne({ ...LINE, _id: newId(Date.now()), at: new Date(Number(first?.at) + 1) }),
    fault: /^row \S+ has no place in the chain/,
  },
};

for (const [name, { break: tamper, fault }] of Object.entries(BREAKS)) {
  t.test(`the walk reports ${name}`, async (t) => {
    await tamper(await fiveRows());
    t.match(await verdict(), fault);
  });
}

t.test('a noted head shows that later rows were deleted, or that the whole chain was written anew', async (t) => {
  const [, , third, , fifth] = await fiveRows();
  const noted = (row?: StoredRow) => ({ seq: Number(row?.seq), hash: String(row?.hash) });
  t.match(await verifyAudit(mongo, noted(third)), { fault: null, intact: 3, head: noted(fifth) });
  t.match(await verifyAudit(mongo, noted(fifth)), { fault: null, intact: 1 });
  await stored.deleteOne({ _id: fifth?._id ?? '' });
  t.equal(await verdict(), null, 'the chain alone does not show it');
  t.match(await verifyAudit(mongo, noted(fifth)), { fault: 'row 5 is missing', intact: 0 });
  await fiveRows();
  await stored.deleteMany({});
  for (let n = 0; n < 5; n++) await writeAudit(mongo, { ...ACT, operator: 'forger' }, LINE);
  t.equal(await verdict(), null);
  t.match(await verifyAudit(mongo, noted(fifth)), { fault: /^row 5 does not have the noted hash/ });
});

t.test('a row without a number is a fault, whichever time it has and wherever the walk begins', async (t) => {
  for (const id of [newId(ACT.now - 60_000), 'zzz']) {
    const [, , third] = await fiveRows();
    await stored.insertOne({ ...LINE, _id: id, at: new Date(ACT.now - 60_000) });
    const found = { fault: `row ${id} has no place in the chain`, head: { seq: 5 } };
    t.match(await verifyAudit(mongo, null), { ...found, intact: 5 });
    const noted = { seq: Number(third?.seq), hash: String(third?.hash) };
    t.match(await verifyAudit(mongo, noted), { ...found, intact: 3 });
    await stored.deleteMany({ seq: { $exists: true } });
    t.match(await verifyAudit(mongo, null), { ...found, head: null, intact: 0 });
  }
});

t.test('processes that create the key at the same time hash alike, and another cluster does not', async (t) => {
  const [mongo, other] = [await openTestMongo(t, { empty: true }), await openTestMongo(t, { empty: true })];
  // Each copy of the handle is a process of its own.
  const processes = Array.from({ length: 8 }, () => ({ ...mongo }));
  const made = await Promise.all(processes.map(async (own) => (await clusterHash(own))('person', 'student-7')));
  t.equal(new Set(made).size, 1);
  t.equal(await mongo.db.collection(CLUSTER_KEYS).countDocuments({}), 1);
  t.equal((await clusterHash({ ...mongo }))('person', 'student-7'), made[0], 'a later process');

  const hash = await clusterHash(other);
  t.not(hash('person', 'student-7'), made[0]);
  t.not(hash('person', 'student-7'), hash('actor', 'student-7'), 'the log and the audit have different hashes');
});

t.test('the key is read again after a failure', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  let isDown = true;
  const collection: typeof mongo.db.collection = (...args) => {
    if (isDown) throw new Error('MongoDB is down');
    return mongo.db.collection(...args);
  };
  const flaky = { ...mongo, db: { ...mongo.db, collection } as typeof mongo.db };
  await t.rejects(clusterHash(flaky), /is down/);
  isDown = false;
  t.match((await clusterHash(flaky))('actor', 'student-7'), /^[\w-]{16}$/);
});

t.test('the log names no caller before the key is read, and afterwards as the tool does', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const hashes = openLogHashes(mongo);
  t.equal(hashes.of('actor', 'student-7'), undefined);
  await hashes.read();
  const hash = await clusterHash(mongo);
  for (let n = 0; n < 2; n += 1) t.equal(hashes.of('actor', 'student-7'), hash('actor', 'student-7'));
});

// Pages of the audit.

async function readAll(filter: AuditFilter, between: () => Promise<void> = async () => undefined): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const page = await readAuditPage(pages, filter, cursor);
    if (page === null) throw new Error('a cursor of a page was refused');
    seen.push(...page.rows.map(({ reason }) => reason));
    cursor = page.nextCursor;
    await between();
  } while (cursor !== null);
  return seen;
}

const expected = (isWanted: (n: number) => boolean) =>
  Array.from({ length: ACTS }, (_, n) => n)
    .filter(isWanted)
    .sort((a, b) => timeOf(b) - timeOf(a) || b - a)
    .map((n) => `r-${n}`);

t.test('a walk meets each act once, the newest first', async (t) => {
  t.strictSame(
    await readAll({}),
    expected(() => true),
  );
});

t.test('filters combine', async (t) => {
  t.strictSame(
    await readAll({ operator: 'ADMIN a-1' }),
    expected((n) => n % 2 === 1),
  );
  t.strictSame(
    await readAll({ action: 'account.unlock' }),
    expected((n) => n % 5 === 0),
  );
  t.strictSame(
    await readAll({ subject: 's-3', operator: 'OPS_TOKEN' }),
    expected((n) => n % 7 === 3 && n % 2 === 0),
  );
  t.strictSame(await readAll({ subject: 'unknown' }), []);
});

t.test('a cursor that no page contained is refused', async (t) => {
  for (const cursor of ['', 'x', '1', '.', '1.', '{"$gt":""}', '1.a b', `1.${'a'.repeat(65)}`])
    t.equal(await readAuditPage(pages, {}, cursor), null, cursor);
});

t.test('acts that are added during a walk change nothing in it', async (t) => {
  const before = expected(() => true);
  let added = ACTS + 10;
  t.strictSame(
    await readAll({}, async () => {
      added += 1;
      await act(added);
    }),
    before,
  );
});

t.test('no page of the audit scans or sorts it', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const rows = Array.from({ length: 20 }, (_, n) => ({
    _id: `row-${String(n).padStart(2, '0')}`,
    operator: 'an',
    action: 'account.unlock' as const,
    subject: 'account-1',
    reason: 'the owner called',
    at: new Date(1_000 * Math.floor(n / 3)),
    detail: {},
  }));
  await operatorAudit(mongo).insertMany(rows as never);
  seen.clear();
  const filters = [{}, { operator: 'an' }, { action: 'account.unlock' }, { subject: 'account-1' }];
  for (const filter of filters) {
    const walked: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await readAuditPage(mongo, filter, cursor, 4);
      walked.push(...(page?.rows.map(({ _id }) => _id) ?? []));
      cursor = page?.nextCursor ?? null;
    } while (cursor !== null);
    t.strictSame(walked, rows.map(({ _id }) => _id).reverse(), 'each row once, the newest first');
  }
  await noneScans(t, mongo, seen, 2 * filters.length);
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values()) {
    const stages = (await planOf(mongo, filter)).join(' < ');
    t.match(stages, `IXSCAN ${filter.explainable.hint}`);
    t.notMatch(stages, /SORT/, 'a page is sorted by its index');
  }
});
