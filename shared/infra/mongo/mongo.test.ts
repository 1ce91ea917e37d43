import { readFileSync } from 'node:fs';
import path from 'node:path';
import {
  type ClientSession,
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoError,
  MongoExpiredSessionError,
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoNotConnectedError,
  MongoOperationTimeoutError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoStalePrimaryError,
  MongoTopologyClosedError,
  MongoUnexpectedServerResponseError,
  MongoWriteConcernError,
} from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { FLAWS } from '#testing/stores/flaws.ts';
import { isDuplicateKey, isOutage, outageInWords, refusedRows } from './faults.ts';
import { endsLapses, type NextState } from './mailbox/settle.ts';
import { REWRITES } from './person/rewrite.ts';
import { BEHAVIOURS, UnfitServer } from './probe/probe.ts';
import { shareLookups } from './shared-reads.ts';

const socketError = (code: string) => Object.assign(new Error('This socket has been ended'), { code });
const server = (code: number, ...errorLabels: string[]) =>
  new MongoServerError({ message: 'from the server', code, errorLabels });
/** Returns the error that insertMany throws for a failure of one of its writes. */
const bulk = (response: object) =>
  new MongoBulkWriteError(response as never, {} as ConstructorParameters<typeof MongoBulkWriteError>[1]);
/** Codes that none of our lists contains. Only a label classifies such an error. */
const UNKNOWN_CODE = 999_999;

t.test('isOutage recognizes errors that mean MongoDB is unavailable', async (t) => {
  const transient = new MongoError('unlike others');
  transient.addErrorLabel('TransientTransactionError');
  for (const [name, error] of Object.entries({
    network: new MongoNetworkError('connection closed'),
    // Node's socket throws this past the driver, if mongod is killed between two commands.
    'write after the end': socketError('EPIPE'),
    'wrapped socket error': new Error('failed', { cause: socketError('ECONNRESET') }),
    'not primary': server(10107),
    'shutting down': server(91),
    'time limit': server(50),
    'no majority in time': new MongoWriteConcernError({ ok: 1, writeConcernError: { code: 64, errmsg: 'waited' } }),
    transient,
    'labelled: the transaction was thrown away': server(UNKNOWN_CODE, 'TransientTransactionError'),
    'labelled: the write may be made again': server(UNKNOWN_CODE, 'RetryableWriteError'),
    'labelled in a bulk': bulk(server(UNKNOWN_CODE, 'TransientTransactionError')),
    'lost in a bulk': bulk(new MongoNetworkError('connection closed')),
    'conflict in a bulk': bulk({ code: 112, message: '' }),
    'reply too late': new MongoNetworkTimeoutError('timed out'),
    'call too late': new MongoOperationTimeoutError('timed out'),
    'no server': new MongoServerSelectionError('none', {} as never),
    'clock behind': new MongoServerError({
      code: 72,
      message: 'readConcern afterClusterTime value must not be greater than the current clusterTime',
    }),
    'server closed': new MongoServerClosedError(),
    'reply of another kind': new MongoUnexpectedServerResponseError('no cursor'),
    'primary of old': new MongoStalePrimaryError('an older election'),
    'topology closed': new MongoTopologyClosedError(),
    'not connected': new MongoNotConnectedError('not yet'),
    'client closed': new MongoClientClosedError(),
  })) {
    t.ok(isOutage(error), name);
  }
  // Lock timeout, not yet initialized, no majority to read, snapshot gone, transaction too old, overloaded, interrupted.
  for (const code of [24, 94, 134, 246, 290, 365, 11601]) t.ok(isOutage(server(code)), `code ${code}`);
  // Not allowed, password changed, cursor gone, writes blocked, sign in again, too many requests, refused by Atlas, disk full.
  for (const code of [13, 18, 43, 371, 391, 462, 8000, 14031]) t.ok(isOutage(server(code)), `code ${code}`);
  // From a router: a shard without a primary, no progress of a write, and rows that are moving.
  for (const code of [133, 82, 250, 272, 13388]) t.ok(isOutage(server(code)), `code ${code}`);
  t.ok(isOutage(bulk({ code: 133, message: '' })), 'a shard without a primary in a bulk');
});

t.test('isOutage rejects bugs and refused writes', async (t) => {
  for (const [name, error] of Object.entries({
    'duplicate key': server(11000),
    'duplicate key in a bulk': bulk({ code: 11000, message: '', writeErrors: [] }),
    // The reply to one write may report both a taken key and a write concern timeout.
    'duplicate key with a label': server(11000, 'RetryableWriteError'),
    'wrong option': server(72),
    'refused document': server(121),
    'refused document with a label': server(121, 'TransientTransactionError'),
    'unknown code': server(UNKNOWN_CODE),
    'session of old': new MongoExpiredSessionError(),
    'bad query': server(2),
    'bad argument': new MongoInvalidArgumentError('no such option'),
    bug: new TypeError('undefined is no function'),
    'another code': socketError('ENOENT'),
    nothing: undefined,
  })) {
    t.notOk(isOutage(error), name);
  }
});

t.test('isDuplicateKey matches the key fields of one index', async (t) => {
  const error = new MongoServerError({ message: 'E11000', code: 11000, keyPattern: { examId: 1, studentId: 1 } });
  t.ok(isDuplicateKey(error));
  t.ok(isDuplicateKey(error, ['examId', 'studentId']));
  t.notOk(isDuplicateKey(error, ['studentId']));
  t.notOk(isDuplicateKey(server(112)));
  t.ok(MongoBulkWriteError.prototype instanceof MongoServerError, 'a bulk write is one of the server errors');
});

t.test('outageInWords explains an outage to an operator, and is undefined for a bug', async (t) => {
  const hint = 'planner returned error :: caused by :: hint provided does not correspond to an existing index';
  t.match(
    outageInWords(new MongoServerError({ message: hint, code: 2 })),
    /lacks an index .*: run `examhall migrate`$/,
  );
  t.equal(
    outageInWords(new MongoNetworkError('connect ECONNREFUSED')),
    'MongoDB does not answer: connect ECONNREFUSED',
  );
  const refused = new MongoServerError({ message: 'Authentication failed.', code: 18 });
  t.equal(outageInWords(refused), 'MongoDB refuses the user that MONGODB_URL names: Authentication failed.');
  for (const bug of [new TypeError('undefined is no function'), server(2), undefined])
    t.equal(outageInWords(bug), undefined);
});

t.test('a bulk insert that a shard without a primary refused stores its rows later', async (t) => {
  const refused = (code: number) => {
    const result = { getWriteConcernError: () => undefined, getWriteErrors: () => [{ code, index: 1 }] };
    return new MongoBulkWriteError({ code, message: '', writeErrors: [] } as never, result as never);
  };
  t.equal(refusedRows(refused(133)), null);
  t.strictSame(refusedRows(refused(121)), [1]);
});

t.test('an outcome ends a row of lapses, and a run that was cut short does not', async (t) => {
  const error = { fingerprint: 'Error: no', message: 'no', code: null };
  const again = { to: 'AGAIN', inMs: 0 } as const;
  const cases: [NextState, boolean][] = [
    [{ to: 'DONE', result: null as never }, true],
    [{ to: 'DEAD', error }, true],
    [{ ...again, unspent: false, error }, true],
    [{ ...again, unspent: true, error: null }, true],
    [{ ...again, unspent: true, error }, false],
  ];
  for (const [next, ends] of cases) t.equal(endsLapses(next), ends, JSON.stringify(next));
});

const KEYS = { id: 'student-1', pseudonym: 'erased-1' };
const AT = { now: new Date(), session: {} as ClientSession };
/** A connection that nothing may use. */
const UNUSED = {} as Mongo;

t.test('a row that was located without its shard key is refused before the first statement', async (t) => {
  await t.rejects(REWRITES.seat(UNUSED, { _id: '["link-1","student-1"]' }, KEYS, AT), /without its linkId/);
  await t.rejects(REWRITES.generation(UNUSED, { _id: 'preview-1' }, KEYS, AT), /without its key/);
});

const GUIDE = path.resolve(import.meta.dirname, '../../../docs/operating.md');
const names = BEHAVIOURS.map(({ name }) => name);

t.test('every behaviour of the probe has a unique name and a flaw that proves its check', async (t) => {
  t.equal(new Set(names).size, names.length);
  const lacking = new Set(FLAWS.map(({ lacks }) => lacks));
  t.strictSame([...lacking].sort(), [...names].sort());
});

t.test('docs/operating.md lists every behaviour of the probe, and what breaks without it', async (t) => {
  const [, section = ''] = readFileSync(GUIDE, 'utf8').split('\n## Which MongoDB\n');
  const [table = ''] = section.split('\n## ');
  const rows = [...table.matchAll(/^\| `([a-z ]+)` +\| (.+?) +\|$/gm)].map(([, name, breaks]) => ({ name, breaks }));
  t.strictSame(
    rows,
    BEHAVIOURS.map(({ name, breaks }) => ({ name, breaks })),
  );
});

t.test('the error for an unfit server lists the missing behaviours and their consequences', async (t) => {
  const server = { version: '5.0.0', build: '5.0.0 0123', topology: 'replica set rs0', now: 0 };
  const findings = [
    { name: 'freed keys', breaks: 'Nothing could be posted again.', fault: 'the key stays taken' },
    { name: 'literals', breaks: 'Texts would be lost.', fault: null },
  ];
  const lines = new UnfitServer({ server, findings }).message.split('\n');
  t.match(lines[0], 'MongoDB 5.0.0, replica set rs0) lacks 1 of 2 behaviours');
  t.equal(lines[1], '  freed keys: the key stays taken. Nothing could be posted again.');
  t.equal(lines.length, 3);
});

t.test('a lookup that fails with others is made alone, unless the server does not answer', async (t) => {
  const asked: string[][] = [];
  const lookUp = shareLookups(async (wanted: readonly string[]) => {
    asked.push([...wanted]);
    if (wanted.includes('on the shard that is down')) throw server(133);
    if (wanted.includes('unanswered')) throw new MongoNetworkError('connection closed');
    return wanted.map((one) => one.toUpperCase());
  });
  t.strictSame(await Promise.all(['a', 'b'].map(lookUp)), ['A', 'B']);
  t.match(await Promise.allSettled(['a', 'on the shard that is down', 'b'].map(lookUp)), [
    { value: 'A' },
    { reason: { code: 133 } },
    { value: 'B' },
  ]);
  t.strictSame(
    asked.splice(0).map((wanted) => wanted.length),
    [2, 3, 1, 1, 1],
  );
  const unanswered = await Promise.allSettled(['a', 'unanswered'].map(lookUp));
  t.ok(unanswered.every(({ status }) => status === 'rejected'));
  t.equal(asked.length, 1, 'a server that does not answer is not asked again');
});
