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
  t.same(reaches('update', { update: 'attempts', updates: [{ q: { studentId: 's' } }, { q: { _id: 'a' } }] }), [
    'one',
    'every',
  ]);
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
