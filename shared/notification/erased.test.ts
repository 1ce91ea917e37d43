import t from 'tap';
import { concernsErased, personsIn, withoutErased, withoutErasedActor } from './erased.ts';

const erased = new Set(['gone']);
const row = { userId: 'here', type: 'T', title: 'x', content: 'x' };

t.test('a notification to an erased person or about one is recognised, and an erased actor is left out', (t) => {
  t.equal(concernsErased({ ...row, userId: 'gone' }, erased), true);
  t.equal(concernsErased({ ...row, entityId: 'gone' }, erased), true);
  t.equal(concernsErased({ ...row, actorId: 'gone', entityId: null }, erased), false);
  t.strictSame(withoutErasedActor({ ...row, actorId: 'gone' }, erased), { ...row, actorId: null });
  t.strictSame(withoutErasedActor({ ...row, actorId: 'here' }, erased), { ...row, actorId: 'here' });
  t.end();
});

t.test('an event about an erased person keeps its replay key alone', (t) => {
  const key = { sourceService: 's', sourceEventId: 'e', type: 'T' };
  const about = { ...key, entityId: 'gone', targetUserIds: ['parent'], payload: { name: 'An' } };
  t.strictSame(withoutErased(about, erased), { ...key, entityId: null, targetUserIds: null, payload: null });
  const among = { ...key, entityId: 'exam', actorId: 'gone', targetUserIds: ['gone', 'here'], payload: { n: 1 } };
  t.strictSame(withoutErased(among, erased), { ...among, actorId: null, targetUserIds: ['here'] });
  t.strictSame(withoutErased(key, erased), key, 'absent fields stay absent');
  t.end();
});

t.test('every id of a request that may be a person is collected once', (t) => {
  const notifications = [row, { ...row, actorId: 'a', entityId: 'e' }];
  const event = { entityId: 'e', actorId: null, targetUserIds: ['here', 't'] };
  t.strictSame(personsIn(notifications, event).sort(), ['a', 'e', 'here', 't']);
  t.strictSame(personsIn([row], null), ['here']);
  t.end();
});
