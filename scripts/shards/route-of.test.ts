import t from 'tap';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';
import { routesOf } from './route-of.ts';

const PLACEMENTS: Record<string, Placement> = {
  attempts: { shardKey: ['studentId'] },
  seats: { shardKey: ['linkId', 'seat'] },
  accounts: { rows: 9, why: 'it is small' },
};

const reaches = (command: string, sent: object) => routesOf(command, sent, PLACEMENTS).map(({ reach }) => reach);
const find = (filter: object, find = 'attempts') => reaches('find', { find, filter });

t.test('a filter that names the shard key reaches one shard, a list of values a few', (t) => {
  t.same(find({ _id: 'a', studentId: 's' }), ['one']);
  t.same(find({ studentId: { $eq: 's' }, status: { $ne: 'GRADED' } }), ['one']);
  t.same(find({ $and: [{ _id: 'a' }, { studentId: 's' }] }), ['one']);
  t.same(find({ studentId: { $in: ['s', 't'] } }), ['few']);
  t.same(find({ studentId: { $in: ['s'] } }), ['one']);
  t.same(find({ linkId: 'l', seat: 3 }, 'seats'), ['one']);
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
    t.same(find(filter), ['every'], JSON.stringify(filter));
  }
  t.same(find({ linkId: 'l' }, 'seats'), ['every']);
  t.same(reaches('find', { find: 'attempts' }), ['every']);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $sort: { _id: 1 } }] }), ['every']);
  t.end();
});

t.test('each statement of a command has its own route', (t) => {
  const updates = [
    { q: { studentId: 's' }, multi: true },
    { q: { _id: 'a' }, multi: true },
  ];
  t.same(reaches('update', { update: 'attempts', updates }), ['one', 'every']);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: { studentId: 's' } }] }), ['one']);
  t.same(reaches('insert', { insert: 'attempts', documents: [{ _id: 'a', studentId: 's' }, { _id: 'b' }] }), [
    'one',
    'every',
  ]);
  t.same(reaches('findAndModify', { findAndModify: 'attempts', query: { studentId: 's' } }), ['one']);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $match: { studentId: 's' } }] }), ['one']);
  t.same(reaches('distinct', { distinct: 'attempts', query: { _id: 'a' } }), ['every']);
  t.same(find({ email: 'e' }, 'accounts'), ['one'], 'the collection is on one shard');
  t.end();
});

t.test('a write of one document has to name one shard', (t) => {
  const [one, several, none] = [{ studentId: 's' }, { studentId: { $in: ['s', 't'] } }, { _id: 'a' }];
  for (const [q, reach] of [[one, 'one'] as const, [several, 'refused'] as const, [none, 'refused'] as const]) {
    t.same(reaches('update', { update: 'attempts', updates: [{ q }] }), [reach]);
    t.same(reaches('delete', { delete: 'attempts', deletes: [{ q, limit: 1 }] }), [reach]);
    t.same(reaches('findAndModify', { findAndModify: 'attempts', query: q }), [reach]);
  }
  t.same(reaches('update', { update: 'attempts', updates: [{ q: several, multi: true }] }), ['few']);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: none, limit: 0 }] }), ['every']);
  t.same(reaches('findAndModify', { findAndModify: 'accounts', query: none }), ['one']);
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
    t.same(reach(u), ['refused'], JSON.stringify(u));
  t.same(reach({ $set: { studentId: 't' } }, false), ['one'], 'a document by itself moves to its new shard');
  t.same(reach({ $set: { status: 'studentId' } }), ['one']);
  t.same(reach([{ $set: { 'body.studentId': 1 } }]), ['one']);
  t.end();
});

t.test('an ordered batch over several shards is sent in turn', (t) => {
  const insert = (ids: readonly string[], ordered: boolean, insert = 'attempts') =>
    reaches('insert', { insert, ordered, documents: ids.map((studentId) => ({ studentId })) });
  t.same(insert(['s', 't'], true), ['in turn', 'in turn']);
  t.same(insert(['s', 's'], true), ['one', 'one']);
  t.same(insert(['s', 't'], false), ['one', 'one']);
  t.same(insert(['s', 't'], true, 'accounts'), ['one', 'one']);
  t.end();
});

t.test('commands without a filter and collections that are not declared have no route', (t) => {
  t.same(reaches('commitTransaction', { commitTransaction: 1 }), []);
  t.same(reaches('getMore', { getMore: 7, collection: 'attempts' }), []);
  t.same(find({}, 'bench_rows'), []);
  t.end();
});

t.test('a shape contains fields and operators, and no value', (t) => {
  const [route] = routesOf(
    'find',
    { find: 'attempts', filter: { studentId: { $in: ['s'] }, _id: 'a', at: new Date() } },
    PLACEMENTS,
  );
  t.equal(route?.shape, '_id, at, studentId $in');
  const [either] = routesOf('find', { find: 'attempts', filter: { $or: [{ _id: 'a' }, { examId: 'e' }] } }, PLACEMENTS);
  t.equal(either?.shape, '$or(_id|examId)');
  t.end();
});
