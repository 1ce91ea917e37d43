import fc from 'fast-check';
import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import { MAX_AT_ONCE, planFanOut } from './fan-out.ts';
import { type Preferences, preferenceKey, suppressionOf } from './preferences.ts';

const NOW = new Date('2026-11-21T08:00:00.000Z');
const wanted = (more: Partial<Preferences> = {}): Preferences => ({
  _id: 'u',
  enabledTypes: {},
  mutedUntil: null,
  updatedAt: NOW,
  ...more,
});

t.test('a disabled type or a running mute suppresses a notification', async (t) => {
  const muted = new Date(NOW.getTime() + 1);
  t.equal(suppressionOf(null, 'A', NOW), null, 'without preferences nothing is suppressed');
  t.equal(suppressionOf(wanted(), 'A', NOW), null);
  t.equal(suppressionOf(wanted({ enabledTypes: { A: true, B: false } }), 'A', NOW), null);
  t.equal(suppressionOf(wanted({ enabledTypes: { A: false } }), 'A', NOW), 'TYPE_DISABLED');
  t.equal(suppressionOf(wanted({ mutedUntil: muted }), 'A', NOW), 'MUTED');
  t.equal(suppressionOf(wanted({ mutedUntil: NOW }), 'A', NOW), null, 'at its instant a mute is over');
  t.equal(suppressionOf(wanted({ enabledTypes: { A: false }, mutedUntil: muted }), 'A', NOW), 'TYPE_DISABLED');
  for (const inherited of ['constructor', 'toString', '__proto__'])
    t.equal(suppressionOf(wanted(), inherited, NOW), null);
});

t.test("the preference key is the event's preference type, else the notification's, else its type", async (t) => {
  t.equal(preferenceKey({ type: 'T', preferenceType: 'P' }, 'E'), 'E');
  t.equal(preferenceKey({ type: 'T', preferenceType: 'P' }), 'P');
  t.equal(preferenceKey({ type: 'T', preferenceType: null }), 'T');
});

t.test('a fan-out plan creates or reports each notification in order and never overrides a preference', async () => {
  const user = fc.constantFrom('a', 'b', 'c', 'd');
  const type = fc.constantFrom('T', 'U');
  const setting = fc.record({
    enabledTypes: fc.dictionary(type, fc.boolean()),
    mutedUntil: fc.option(fc.constantFrom(-1, 0, 1).map((ms) => new Date(NOW.getTime() + ms))),
  });
  fc.assert(
    fc.property(
      fc.array(fc.record({ userId: user, type })),
      fc.array(fc.tuple(user, setting)),
      fc.option(type),
      (pairs, settings, preferenceType) => {
        const preferences = new Map(settings);
        const notifications = pairs.map((pair) => ({ ...pair, title: 'title', content: '' }));
        let made = 0;
        const { rows, suppressed, staged } = atOnce(
          planFanOut(
            { notifications, event: { type: 'e.v1', preferenceType }, organizationId: 'org', preferences },
            { fanOutId: 'f', now: NOW, newId: () => `n-${made++}` },
          ),
        );
        if (rows.length + suppressed.length !== notifications.length || staged) return false;
        if (rows.some((row, ordinal) => row.ordinal !== ordinal || row._id !== `n-${ordinal}`)) return false;
        // Merging both lists in their order yields the notifications that were sent.
        const order = notifications.map(({ userId, type }) => {
          const reason = suppressionOf(preferences.get(userId) ?? null, preferenceType ?? type, NOW);
          return reason === null ? rows.shift()?.userId === userId : suppressed.shift()?.reason === reason;
        });
        return order.every(Boolean);
      },
    ),
  );
});

t.test('a row takes its source and organization from its event, else from its caller', async (t) => {
  const plan = (event: object | null, own: object = {}) =>
    atOnce(
      planFanOut(
        {
          notifications: [{ userId: 'u', type: 'SUPPORT_TICKET_REPLY', title: 't', content: 'c', ...own }],
          event,
          organizationId: 'of-the-header',
          preferences: new Map(),
        },
        { fanOutId: 'f', now: NOW, newId: () => 'n' },
      ),
    ).rows[0];
  const pair = { sourceService: 'exam-service', sourceEventId: 'e' };
  t.match(plan(pair), { sourceEventRef: 'exam-service:e', organizationId: 'of-the-header', isSupport: true });
  t.match(plan({ ...pair, organizationId: 'of-the-event' }), { organizationId: 'of-the-event' });
  t.match(plan({ organizationId: 'of-the-event' }, { organizationId: 'own' }), { organizationId: 'own' });
  t.match(plan({ type: 'e.v1' }), { sourceEventRef: null, fanOutId: 'f', place: 'INBOX', isRead: false, readAt: null });
  t.match(plan(null, { data: { $a: { 'b.c': 1 } }, type: 'X' }), { data: '{"$a":{"b.c":1}}', isSupport: false });
});

t.test('a fan-out of more than MAX_AT_ONCE rows is staged', async (t) => {
  for (const count of [MAX_AT_ONCE, MAX_AT_ONCE + 1]) {
    const notifications = Array.from({ length: count }, () => ({ userId: 'u', type: 'T', title: 't', content: '' }));
    const { rows, staged } = atOnce(
      planFanOut(
        { notifications, event: null, organizationId: null, preferences: new Map() },
        { fanOutId: 'f', now: NOW, newId: () => 'n' },
      ),
    );
    t.equal(staged, count > MAX_AT_ONCE);
    t.strictSame([...new Set(rows.map(({ place }) => place))], [staged ? 'f' : 'INBOX']);
  }
});
