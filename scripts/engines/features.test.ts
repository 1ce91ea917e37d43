import { UUID } from 'mongodb';
import t from 'tap';
import { guardedUpdate, literal, NOW_MS } from '#infra/mongo/guarded-update.ts';
import { readFeatures } from './features.ts';

function featuresOf(command: object): ReadonlySet<string> {
  const features = new Set<string>();
  readFeatures(command, (kind, name) => features.add(`${kind} ${name}`));
  return features;
}

const sorted = (command: object) => [...featuresOf(command)].sort();
/** Text of a user that resembles operators and variables. */
const SAVED = { answers: { q1: { $where: 'a', $$ROOT: 1 } }, $set: '$$NOW' };

t.test('readFeatures ignores values that resemble operators', async (t) => {
  t.strictSame(sorted({ insert: 'rows', documents: [SAVED], ordered: true }), [
    'command insert',
    'option insert.ordered',
  ]);
  const filter = { _id: SAVED, title: '$$NOW', kind: { $in: ['$eq', SAVED] }, at: new Date(0), id: new UUID() };
  t.strictSame(sorted({ find: 'rows', filter }), ['command find', 'query $in']);
  const changes = { $set: { body: SAVED, 'body.$inc': 1 }, $addToSet: { keys: '$each' }, $inc: { n: 1 } };
  t.strictSame(sorted({ update: 'rows', updates: [{ q: { _id: 'a' }, u: changes }] }), [
    'command update',
    'update $addToSet',
    'update $inc',
    'update $set',
  ]);
});

t.test('readFeatures ignores values under $literal and reads those beside it', async (t) => {
  const pipeline = [{ $set: { body: { $literal: SAVED }, note: { $concat: ['$$NOW', '$title', '$$ROOT.a'] } } }];
  t.strictSame(sorted({ findAndModify: 'rows', query: { _id: '$$CLUSTER_TIME' }, update: pipeline, new: true }), [
    'command findAndModify',
    'expression $concat',
    'expression $literal',
    'option findAndModify.new',
    'option findAndModify.update=pipeline',
    'stage $set',
    'variable $$NOW',
    'variable $$ROOT',
  ]);
});

t.test('readFeatures ignores the values of a guarded update', async (t) => {
  const { pipeline } = guardedUpdate([{ $lt: [NOW_MS, 5] }], { text: literal('$$REMOVE'), deep: literal(SAVED) });
  t.strictSame(
    sorted({ update: 'rows', updates: [{ q: { _id: 'a' }, u: pipeline }] }).filter((feature) =>
      /^(exp|var)/.test(feature),
    ),
    ['$and', '$cond', '$eq', '$literal', '$lt', '$toLong'].map((name) => `expression ${name}`).concat('variable $$NOW'),
  );
});

t.test('readFeatures finds nested query operators', async (t) => {
  const filter = {
    $or: [{ a: { $not: { $gte: 1, $regex: 'x' } } }, { $and: [{ b: /x/ }] }],
    list: { $elemMatch: { n: { $lt: 1 } } },
    numbers: { $elemMatch: { $gt: 1 } },
    $expr: { $ne: ['$a', '$$CURRENT.b'] },
  };
  t.strictSame(
    sorted({ delete: 'rows', deletes: [{ q: filter, limit: 0 }] }).filter((feature) => feature.startsWith('query')),
    ['$and', '$elemMatch', '$expr', '$gt', '$gte', '$lt', '$not', '$or', '$regex'].map((name) => `query ${name}`),
  );
  t.ok(featuresOf({ find: 'rows', filter }).has('variable $$CURRENT'));
  t.ok(featuresOf({ find: 'rows', filter }).has('expression $ne'));
  t.ok(featuresOf({ delete: 'rows', deletes: [{ q: {}, limit: 0 }] }).has('option delete.limit=0'));
});

t.test('readFeatures treats a document whose first field is not an operator as a value', async (t) => {
  t.strictSame(sorted({ find: 'rows', filter: { _id: { status: 'A', $gt: 1 } } }), ['command find']);
});

t.test('readFeatures finds operators and modifiers of classic updates', async (t) => {
  const classic = {
    $push: { log: { $each: [SAVED], $slice: -5 } },
    $addToSet: { keys: { $slice: 1 } },
    $pull: { holds: { n: { $lt: 3 } } },
  };
  t.strictSame(
    sorted({ update: 'rows', updates: [{ q: {}, u: classic, upsert: true, multi: true, arrayFilters: [] }] }),
    [
      'command update',
      'option update.arrayFilters',
      'option update.multi',
      'option update.upsert',
      'query $lt',
      'update $addToSet',
      'update $pull',
      'update $push',
      'update $push.$each',
      'update $push.$slice',
    ],
  );
});

t.test('readFeatures finds no operator in a replacement', async (t) => {
  const updates = [{ q: {}, u: { status: 'A', more: SAVED } }];
  t.strictSame(sorted({ update: 'rows', updates }), ['command update', 'option update.u=replacement']);
});

t.test('readFeatures finds stages, accumulators and expressions of an aggregation', async (t) => {
  const pipeline = [
    { $match: { at: { $gt: 1 } } },
    { $group: { _id: { $ifNull: ['$a', null] }, n: { $sum: { $cond: ['$b', 1, 0] } }, least: { $min: '$b' } } },
    { $project: { _id: 0, holds: { $map: { input: '$holds', in: '$$this.n' } } } },
    { $lookup: { from: 'others', pipeline: [{ $match: { $expr: true } }] } },
    { $sort: { n: -1 } },
  ];
  t.strictSame(sorted({ aggregate: 'rows', pipeline, cursor: { batchSize: 5 }, hint: 'by_a' }), [
    'accumulator $min',
    'accumulator $sum',
    'command aggregate',
    'expression $cond',
    'expression $ifNull',
    'expression $map',
    'option aggregate.cursor.batchSize',
    'option aggregate.hint',
    'query $gt',
    'stage $group',
    'stage $lookup',
    'stage $match',
    'stage $project',
    'stage $sort',
    'variable $$this',
  ]);
});

t.test('readFeatures separates operators of projections from expressions', async (t) => {
  const projection = { a: 1, events: { $slice: -1 }, size: { $size: '$events' } };
  t.strictSame(sorted({ find: 'rows', filter: {}, projection }), [
    'command find',
    'expression $size',
    'projection $slice',
  ]);
});

/** Like the driver's own class, an instance and not a plain object. */
class ReadConcern {
  level: string;
  constructor(level: string) {
    this.level = level;
  }
}

t.test('readFeatures separates the read concern of a transaction from that of a single read', async (t) => {
  const session = { lsid: { id: new UUID() }, $db: 'examhall', $clusterTime: {} };
  const read = { find: 'rows', filter: {}, readConcern: new ReadConcern('snapshot'), ...session };
  t.strictSame(sorted(read), [
    'command find',
    'option $clusterTime',
    'option lsid',
    'option readConcern.level=snapshot',
  ]);
  const first = { ...read, txnNumber: 1, autocommit: false, startTransaction: true };
  t.strictSame(sorted(first), [
    'command find',
    'option $clusterTime',
    'option autocommit=false',
    'option lsid',
    'option startTransaction',
    'option transaction.readConcern.level=snapshot',
  ]);
  t.ok(featuresOf({ insert: 'rows', documents: [], txnNumber: 1 }).has('option txnNumber'));
  t.strictSame(
    sorted({ commitTransaction: 1, autocommit: false, writeConcern: { w: 'majority', j: true }, maxTimeMS: 9 }),
    [
      'command commitTransaction',
      'option autocommit=false',
      'option maxTimeMS',
      'option writeConcern.j',
      'option writeConcern.w=majority',
    ],
  );
});

t.test('readFeatures finds options of an index and operators of its partial filter', async (t) => {
  const key = new Map([
    ['userId', 1],
    ['createdAt', -1],
  ]);
  const partialFilterExpression = { live: true, n: { $gt: 0 } };
  const indexes = [{ name: 'a', key, unique: true, partialFilterExpression, expireAfterSeconds: 5 }];
  t.strictSame(sorted({ createIndexes: 'rows', indexes }), [
    'command createIndexes',
    'index expireAfterSeconds',
    'index key=-1',
    'index key=1',
    'index partialFilterExpression',
    'index partialFilterExpression.$gt',
    'index unique',
  ]);
});
