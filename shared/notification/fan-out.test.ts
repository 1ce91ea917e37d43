import fc from 'fast-check';
import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import { batchFaults, eventFaults, MAX_SUPPRESSED, newEvent } from './event.ts';
import { MAX_AT_ONCE, planFanOut } from './fan-out.ts';
import { type Preferences, preferenceKey, type Suppression, suppressionOf } from './preferences.ts';
import { reportedTopicFaults, weakTopicFanOut, weakTopicFaults } from './weak-topic.ts';

const pathsOf = (faults: readonly { path: string }[]) => faults.map(({ path }) => path);

t.test('event and weak-topic rules return their faults for a body of any shape', async (t) => {
  for (const body of [null, 1, 'text', [], {}]) {
    t.strictSame(eventFaults(body, []), []);
    t.strictSame(batchFaults(body, []), []);
  }
  t.strictSame(batchFaults({ event: [] }, []), []);
  t.strictSame(pathsOf(eventFaults({ sourceService: 1 }, [])), ['/sourceEventId']);
  t.strictSame(pathsOf(eventFaults({ sourceService: null, sourceEventId: 'e' }, [])), ['/sourceService']);
  t.strictSame(eventFaults({ sourceService: 'a', sourceEventId: {} }, []), []);
  t.strictSame(pathsOf(batchFaults({ event: { sourceEventId: 'e' } }, [])), ['/event/sourceService']);
  for (const body of [null, []]) t.strictSame(weakTopicFaults(body, []), []);
  for (const body of [{}, { parentIds: [] }, { parentIds: null, recipientIds: [] }]) {
    t.strictSame(pathsOf(weakTopicFaults(body, [])), ['/parentIds'], JSON.stringify(body));
  }
  t.strictSame(weakTopicFaults({ recipientIds: ['p'] }, []), []);
  t.strictSame(weakTopicFaults({ parentIds: 'p' }, []), [], 'the schema reports this fault');
});

t.test('event rules return no fault at the place of a schema fault', async (t) => {
  const known = [{ path: '/sourceEventId', message: 'must be string' }];
  t.strictSame(eventFaults({ sourceService: 'a', sourceEventId: null }, known), []);
});

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

const storedEvent = (suppressed: readonly Suppression[]) =>
  newEvent(
    { sourceService: 's', sourceEventId: 'e' },
    { id: 'f', now: new Date(0), created: 0, organizationId: null, suppressed },
  );

t.test('an event that notified every recipient stores nothing about suppression', async (t) => {
  const event = storedEvent([]);
  t.notOk('suppressed' in event);
  t.notOk('suppressedCounts' in event);
});

t.test('an event lists whom it did not notify and why, and counts an erased person only', async (t) => {
  const event = storedEvent([
    { userId: 'a', reason: 'MUTED' },
    { userId: 'gone', reason: 'ERASED' },
    { userId: 'b', reason: 'TYPE_DISABLED' },
    { userId: 'c', reason: 'MUTED' },
  ]);
  t.strictSame(event.suppressed, [
    { userId: 'a', reason: 'MUTED' },
    { userId: 'b', reason: 'TYPE_DISABLED' },
    { userId: 'c', reason: 'MUTED' },
  ]);
  t.strictSame(event.suppressedCounts, { MUTED: 2, ERASED: 1, TYPE_DISABLED: 1 });
});

t.test('the list is bounded, and the counts are not', async (t) => {
  const many = Array.from({ length: 10_000 }, (_, n): Suppression => ({ userId: `user-${n}`, reason: 'MUTED' }));
  const event = storedEvent(many);
  t.equal(event.suppressed?.length, MAX_SUPPRESSED);
  t.strictSame(event.suppressedCounts, { MUTED: 10_000 });
  t.ok(JSON.stringify(event.suppressed).length < 64 * 1_024);
});

const ALERT = {
  sourceService: 'bff-service',
  sourceEventId: 'event-1',
  studentId: 'hs-1',
  topic: 'Hàm số',
  studentName: 'Nguyễn An',
  parentIds: ['parent-1'],
};
const FORGED = 'Nam\r\n\r\nNHÀ TRƯỜNG THÔNG BÁO: tài khoản phụ huynh sẽ bị khóa.\r\n\r\n';
const ADDRESSES = [
  'https://evil.example/login',
  'HTTP://1.2.3.4',
  'truong.edu',
  'xem TRUONG.EDU.VN ngay',
  'abc123.vn/dang-nhap',
  'www.x',
  'ｗｗｗ．truong．edu',
  'truong。edu',
  'truong｡edu',
  'https：／／1.2.3.4',
  'trường.vn',
  'truo\u031Bng.v\u0323n',
  'truong.\u3164edu',
  'truong\uFE0F.edu',
  'truong.\u034Fedu',
  'пример.рф',
  'thay@truong.edu',
];

t.test('a reported topic names its student and topic in one line without the address of a page', async (t) => {
  const faultsOf = (change: object) => pathsOf(reportedTopicFaults({ ...ALERT, ...change }, []));
  for (const text of [
    FORGED,
    'a\u2028b',
    'a\u0007b',
    'Quản trị viên\u200B',
    'a\u202Egpj.exe',
    'tru\u00ADong.edu',
    ...ADDRESSES,
  ]) {
    t.strictSame(faultsOf({ studentName: text }), ['/studentName'], encodeURIComponent(text));
    t.strictSame(faultsOf({ topic: text }), ['/topic'], encodeURIComponent(text));
    t.strictSame(faultsOf({ studentName: undefined, studentId: text }), ['/studentId'], 'an id that is shown');
    t.strictSame(faultsOf({ studentId: text }), [], 'an id that is not shown');
  }
  for (const text of [
    'Trần Thị B. An',
    'Bài 2.Hàm số bậc 3.5',
    'v.v.',
    'TP. HCM',
    'Hàm số…đồ thị',
    'a/b: c',
    'x² + ½',
    'Nguyễn A\u0301n',
  ])
    t.strictSame(faultsOf({ studentName: text, topic: text }), [], text);
});

t.test('a reported topic reaches one to twenty recipients', async (t) => {
  const ids = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `parent-${from + n}`);
  const faultsOf = (parentIds: unknown, recipientIds?: unknown) =>
    pathsOf(reportedTopicFaults({ ...ALERT, parentIds, recipientIds }, []));
  for (const others of [ids(20), [], null, undefined]) t.strictSame(faultsOf(ids(20), others), []);
  t.strictSame(faultsOf(ids(20), ids(1, 20)), ['/recipientIds']);
  t.strictSame(faultsOf([], null), ['/parentIds']);
});

t.test('a fault of the schema hides no other one, and its own text is not read', async (t) => {
  const known = [{ path: '/topic', message: 'must be shorter' }];
  const body = { ...ALERT, topic: 'https://evil.example/'.repeat(100_000), studentName: FORGED, parentIds: [] };
  t.match(reportedTopicFaults(body, known), [{ path: '/parentIds' }, { path: '/studentName' }]);
  for (const odd of [null, 7, 'text', [], { topic: 7, studentName: {}, parentIds: 'x' }])
    t.doesNotThrow(() => reportedTopicFaults(odd, []));
});

t.test('a topic of a service has the words and the organization that the service sends', async (t) => {
  const alert = { ...ALERT, topic: 'truong.edu', organizationId: 'org-9' };
  t.strictSame(weakTopicFaults(alert, []), []);
  t.match(weakTopicFanOut(alert, null), { event: { organizationId: 'org-9', actorId: null } });
});
