import { existsSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';
import { faultsOf, isExcepted, SHARD_EXCEPTIONS } from './shard-rule.ts';

const PLACEMENTS: Record<string, Placement> = {
  attempts: { shardKey: ['studentId'] },
  seats: { shardKey: ['linkId', 'seat'] },
  accounts: { rows: 9, why: 'it is small' },
};

const REFUSED = 'is a write that MongoDB 7 refuses';
const EVERY = 'goes to every shard';
const IN_TURN = 'is part of an ordered batch over several shards';
const reaches = (command: string, sent: object) => faultsOf(command, sent, PLACEMENTS).map(({ fault }) => fault);
const find = (filter: object, find = 'attempts') => reaches('find', { find, filter });

t.test('a filter that names the shard key reaches one shard, a list of values a few', (t) => {
  t.same(find({ _id: 'a', studentId: 's' }), []);
  t.same(find({ studentId: { $eq: 's' }, status: { $ne: 'GRADED' } }), []);
  t.same(find({ $and: [{ _id: 'a' }, { studentId: 's' }] }), []);
  t.same(find({ studentId: { $in: ['s', 't'] } }), []);
  t.same(find({ studentId: { $in: ['s'] } }), []);
  t.same(find({ linkId: 'l', seat: 3 }, 'seats'), []);
  t.end();
});

t.test('a filter without an equality on the whole shard key reaches every shard', (t) => {
  for (const filter of [
    {},
    { _id: 'a' },
    { studentId: { $gt: 's' } },
    { studentId: /^s/ },
    { $or: [{ studentId: 's' }] },
    { _id: 'a', studentId: undefined },
  ]) {
    t.same(find(filter), [EVERY], JSON.stringify(filter));
  }
  t.same(find({ linkId: 'l' }, 'seats'), [EVERY]);
  t.same(reaches('find', { find: 'attempts' }), [EVERY]);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $sort: { _id: 1 } }] }), [EVERY]);
  t.end();
});

t.test('each statement of a command has its own route', (t) => {
  const updates = [
    { q: { studentId: 's' }, multi: true },
    { q: { _id: 'a' }, multi: true },
  ];
  t.same(reaches('update', { update: 'attempts', updates }), [EVERY]);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: { studentId: 's' } }] }), []);
  t.same(reaches('insert', { insert: 'attempts', documents: [{ _id: 'a', studentId: 's' }, { _id: 'b' }] }), [EVERY]);
  t.same(reaches('findAndModify', { findAndModify: 'attempts', query: { studentId: 's' } }), []);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $match: { studentId: 's' } }] }), []);
  t.same(reaches('distinct', { distinct: 'attempts', query: { _id: 'a' } }), [EVERY]);
  t.same(find({ email: 'e' }, 'accounts'), [], 'the collection is on one shard');
  t.end();
});

t.test('a write of one document has to name one shard', (t) => {
  const [one, several, none] = [{ studentId: 's' }, { studentId: { $in: ['s', 't'] } }, { _id: 'a' }];
  for (const [q, faults] of [[one, []] as const, [several, [REFUSED]] as const, [none, [REFUSED]] as const]) {
    t.same(reaches('update', { update: 'attempts', updates: [{ q }] }), faults);
    t.same(reaches('delete', { delete: 'attempts', deletes: [{ q, limit: 1 }] }), faults);
    t.same(reaches('findAndModify', { findAndModify: 'attempts', query: q }), faults);
  }
  t.same(reaches('update', { update: 'attempts', updates: [{ q: several, multi: true }] }), []);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: none, limit: 0 }] }), [EVERY]);
  t.same(reaches('findAndModify', { findAndModify: 'accounts', query: none }), []);
  t.end();
});

t.test('an update of several documents must not set the shard key', (t) => {
  const q = { studentId: 's' };
  const reach = (u: object, multi = true) => reaches('update', { update: 'attempts', updates: [{ q, u, multi }] });
  for (const u of [
    { $set: { studentId: 't' } },
    [{ $set: { a: 1 } }, { $unset: ['studentId'] }],
    [{ $unset: 'studentId' }],
  ])
    t.same(reach(u), [REFUSED], JSON.stringify(u));
  t.same(reach({ $set: { studentId: 't' } }, false), [], 'a document by itself moves to its new shard');
  t.same(reach({ $set: { status: 'studentId' } }), []);
  t.same(reach([{ $set: { 'body.studentId': 1 } }]), []);
  t.end();
});

t.test('an ordered batch over several shards is sent in turn', (t) => {
  const insert = (ids: readonly string[], ordered: boolean, insert = 'attempts') =>
    reaches('insert', { insert, ordered, documents: ids.map((studentId) => ({ studentId })) });
  t.same(insert(['s', 't'], true), [IN_TURN, IN_TURN]);
  t.same(insert(['s', 's'], true), []);
  t.same(insert(['s', 't'], false), []);
  t.same(insert(['s', 't'], true, 'accounts'), []);
  t.end();
});

t.test('commands without a filter and collections that are not declared have no route', (t) => {
  t.same(reaches('commitTransaction', { commitTransaction: 1 }), []);
  t.same(reaches('getMore', { getMore: 7, collection: 'attempts' }), []);
  t.same(find({}, 'bench_rows'), []);
  t.end();
});

t.test('a shape contains fields and operators, and no value', (t) => {
  const [fault] = faultsOf(
    'find',
    { find: 'attempts', filter: { studentId: { $gt: 's' }, _id: 'a', at: new Date() } },
    PLACEMENTS,
  );
  t.equal(fault?.shape, '_id, at, studentId $gt');
  const [either] = faultsOf('find', { find: 'attempts', filter: { $or: [{ _id: 'a' }, { examId: 'e' }] } }, PLACEMENTS);
  t.equal(either?.shape, '$or(_id|examId)');
  t.end();
});

t.test('an exception names a file that exists, and statements on sharded collections that it may send', (t) => {
  for (const [file, statements] of Object.entries(SHARD_EXCEPTIONS)) {
    t.ok(existsSync(path.resolve(import.meta.dirname, '../../../shared/infra/mongo', `${file}.ts`)), file);
    for (const statement of statements)
      t.match(statement, /^(mailboxes|\w+) (find|aggregate|count|update|delete)( \{.*\})?$/, `${file}: ${statement}`);
  }
  const fault = { collection: 'attempts', command: 'find', shape: '_id', fault: EVERY } as const;
  const file = 'shared/infra/mongo/attempt/attempts.ts';
  t.ok(isExcepted(fault, file));
  t.notOk(isExcepted(fault, 'shared/infra/mongo/attempt/grade.ts'), 'another file');
  t.notOk(isExcepted({ ...fault, shape: 'status' }, file), 'another filter');
  t.notOk(isExcepted({ ...fault, fault: REFUSED }, file), 'a refused write has no exception');
  for (const collection of MAILBOXES)
    t.ok(isExcepted({ ...fault, collection }, 'shared/infra/mongo/mailbox/due.ts'), collection);
  t.end();
});
