import t from 'tap';
import { type DeclaredIndex, INDEXES } from '#infra/mongo/schema/indexes.ts';
import { conflicts, readReleased } from './released-indexes.ts';

t.test('no index takes the name or the rows of an earlier one', (t) => {
  t.strictSame(conflicts(INDEXES, readReleased()), []);
  t.end();
});

t.test('an index under an earlier name with other keys or options is a conflict', (t) => {
  const earlier: DeclaredIndex = { collection: 'attempts', name: 'old', keys: { at: 1, _id: 1 } };
  const of = (change: Partial<DeclaredIndex>) => conflicts([{ ...earlier, ...change }], [earlier]);
  t.strictSame(of({}), []);
  t.match(of({ keys: { at: -1, _id: 1 } }), [/^attempts\.old: its name belong/]);
  t.match(of({ keys: { _id: 1, at: 1 } }), [/its name/], 'the order of keys counts');
  t.match(of({ options: { expireAfterSeconds: 60 } }), [/its name/]);
  t.match(of({ name: 'new' }), [/^attempts\.new: its keys and rows belong to the earlier index .*"old"/]);
  t.match(of({ name: 'new', options: { expireAfterSeconds: 60 } }), [/its keys and rows/]);
  t.strictSame(of({ name: 'new', options: { partialFilterExpression: { open: true } } }), []);
  t.strictSame(of({ name: 'new', keys: { at: -1, _id: -1 } }), []);
  t.strictSame(of({ collection: 'commands' }), [], 'another collection');
  t.end();
});
