import t from 'tap';
import { newFromSnapshot, readSnapshot } from './snapshot.ts';

const BODY = {
  userId: 'u',
  type: 'SUPPORT_TICKET_REPLY',
  title: 'T',
  content: '',
  isRead: true,
  createdAt: '2026-09-01T08:00:00+07:00',
};
const now = new Date('2026-11-21T00:00:00.000Z');
const rowOf = (change: object) =>
  newFromSnapshot(readSnapshot('n', { ...BODY, ...change }), { now, organizationId: 'o' });

t.test('the first snapshot of an id creates a complete row', async (t) => {
  t.strictSame(rowOf({}), {
    _id: 'n',
    userId: 'u',
    organizationId: 'o',
    type: 'SUPPORT_TICKET_REPLY',
    title: 'T',
    content: '',
    preferenceType: null,
    actorId: null,
    entity: null,
    entityId: null,
    data: null,
    sourceEventRef: null,
    place: 'INBOX',
    isRead: true,
    readAt: now,
    isSupport: true,
    fanOutId: null,
    ordinal: 0,
    createdAt: new Date('2026-09-01T01:00:00.000Z'),
    deletedAt: null,
  });
});

t.test('the values of a snapshot take precedence over defaults', async (t) => {
  const readAt = '2026-09-02T00:00:00.000Z';
  t.match(rowOf({ readAt, organizationId: 'p' }), { readAt: new Date(readAt), organizationId: 'p' });
  t.match(rowOf({ isRead: false, readAt }), { isRead: false, readAt: null }, 'an unread one was read at no time');
  t.match(rowOf({ isRead: undefined }), { isRead: false, readAt: null });
  t.match(
    rowOf({ isRead: undefined, readAt }),
    { isRead: true, readAt: new Date(readAt) },
    'a time alone tells that it is read',
  );
  t.match(rowOf({ createdAt: undefined }), { createdAt: now });
  const links = { preferenceType: 'P', actorId: 'a', entity: 'E', entityId: 'e', sourceEventRef: 's:1' };
  t.match(rowOf({ ...links, data: { a: 1 } }), { ...links, data: '{"a":1}' });
  t.match(rowOf({ deletedAt: readAt }), { place: 'DELETED', deletedAt: new Date(readAt) });
});
