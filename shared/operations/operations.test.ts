import fc from 'fast-check';
import t from 'tap';
import { DAY, HOUR, MINUTE } from '#shared/kernel/time.ts';
import { type BulkBody, isSameRequest, isTaken } from './bulk-act.ts';
import { readLetterFilter } from './dead-letter.ts';
import { type ExamWalk, lateSeconds, readWalkCursor, walkCursor } from './exam-walk.ts';
import { isSecurityContact, securityTxt } from './security-txt.ts';
import { afterFailure, FAILING_MS } from './subscription.ts';

const NOON = new Date('2026-11-23T12:00:00Z');
const BODY: BulkBody = {
  act: 'drop',
  filter: { queue: 'grading', until: NOON },
  counted: 3,
  perSecond: 20,
  chargeSuperseded: false,
  operator: 'an',
  reason: 'the receiver is gone',
};

t.test('a repeated request has the same act, letters, pace, consent and reason', async (t) => {
  t.ok(isSameRequest(BODY, { ...BODY, operator: 'binh', counted: 4 }), 'the caller and the count may differ');
  const later = new Date(NOON.getTime() + 1);
  for (const other of [
    { ...BODY, act: 'ack' as const },
    { ...BODY, filter: { ...BODY.filter, until: later } },
    { ...BODY, filter: { ...BODY.filter, since: NOON } },
    { ...BODY, filter: { ...BODY.filter, subject: 'a' } },
    { ...BODY, filter: { until: NOON } },
    { ...BODY, perSecond: 21 },
    { ...BODY, chargeSuperseded: true },
    { ...BODY, reason: 'another reason' },
  ]) {
    t.notOk(isSameRequest(BODY, other), JSON.stringify(other));
  }
});

t.test(
  'an act without a queue takes no dead bulk act, which it would continue under an earlier name and reason',
  async (t) => {
    t.notOk(isTaken('upkeep:deadletters', {}));
    t.ok(isTaken('upkeep:deadletters', { queue: 'upkeep:deadletters' }));
    t.ok(isTaken('grading', {}));
    t.notOk(isTaken('grading', { queue: 'settlement' }));
  },
);

const queues = ['grading', 'settlement'] as const;
const timeOf = (text: string) => (text === 'now' ? new Date(0) : null);
const readFilter = (given: Parameters<typeof readLetterFilter>[0]) => readLetterFilter(given, { queues, timeOf });

t.test('a filter has the fields that were given, and no other', async (t) => {
  t.strictSame(readFilter({}), {});
  t.strictSame(readFilter({ queue: null, cause: undefined, subject: null, since: null, until: undefined }), {});
  t.strictSame(readFilter({ queue: 'grading', cause: 'c', subject: 's', since: 'now', until: 'now' }), {
    queue: 'grading',
    cause: 'c',
    subject: 's',
    since: new Date(0),
    until: new Date(0),
  });
});

t.test('an unknown queue and a text that is no time are faults', async (t) => {
  t.strictSame(readFilter({ queue: 'toString' }), { fault: 'queue' });
  t.strictSame(readFilter({ queue: '', since: 'later' }), { fault: 'queue' });
  t.strictSame(readFilter({ since: 'later' }), { fault: 'time' });
  t.strictSame(readFilter({ until: 'later' }), { fault: 'time' });
});

const walks = fc.record<ExamWalk>({
  examId: fc.string({ minLength: 1, maxLength: 128 }),
  status: fc.constantFrom(null, 'IN_PROGRESS', 'SUBMITTED', 'GRADED'),
  student: fc.option(fc.string({ minLength: 1, maxLength: 128 })),
});
const ids = fc.string({ minLength: 1, maxLength: 128 });

t.test('a cursor leads back to its place, and in its own walk alone', async () => {
  fc.assert(
    fc.property(walks, walks, ids, (walk, other, id) => {
      const isSame = JSON.stringify(walk) === JSON.stringify(other);
      const cursor = walkCursor(walk, id);
      return readWalkCursor(walk, cursor) === id && (isSame || readWalkCursor(other, cursor) === null);
    }),
  );
});

t.test('text that no reply contained is no cursor', async (t) => {
  const walk: ExamWalk = { examId: 'e', status: null, student: null };
  const packed = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  for (const parts of [[], ['e', null, null], ['e', null, null, ''], ['e', null, null, 1], ['e', null, null, 'a', 'b']])
    t.equal(readWalkCursor(walk, packed(parts)), null, JSON.stringify(parts));
  for (const cursor of ['', 'x', packed(null), packed({ 0: 'e', length: 4 }), packed('e'), '%']) {
    t.equal(readWalkCursor(walk, cursor), null, cursor);
  }
});

t.test('an attempt is late from its deadline on, and a submit only after it', async (t) => {
  const deadlineAt = new Date(60_000);
  const late = (submittedAt: number | null, now: number) =>
    lateSeconds({ deadlineAt, submittedAt: submittedAt === null ? null : new Date(submittedAt) }, now);
  t.equal(late(null, 59_999), null);
  t.equal(late(null, 60_000), 0);
  t.equal(late(null, 62_999), 2);
  t.equal(late(59_999, 99_000), null);
  t.equal(late(60_000, 99_000), null, 'a submit by deadline');
  t.equal(late(61_500, 99_000), 1, 'the time of the submit counts, not the present one');
  t.equal(lateSeconds({ deadlineAt: null, submittedAt: null }, 99_000), null);
});

const NOW = 1_790_000_000_000;
const failure = { now: NOW, isGone: false };
const ago = (ms: number) => new Date(NOW - ms);

t.test('a first failure begins the count', async (t) => {
  t.match(afterFailure({ failingSince: null, pausedUntil: null }, failure), { failingSince: new Date(NOW) });
});

t.test('a receiver that fails again and again for three days is disabled', async (t) => {
  const ended = afterFailure({ failingSince: ago(FAILING_MS), pausedUntil: ago(MINUTE) }, failure);
  t.match(ended, { state: 'DISABLED', disabledReason: 'FAILING', failingSince: ago(FAILING_MS) });
});

t.test('a failure after a silence counts as the first one', async (t) => {
  for (const pausedUntil of [ago(7 * HOUR), null]) {
    const ended = afterFailure({ failingSince: ago(FAILING_MS), pausedUntil }, failure);
    t.match(ended, { failingSince: new Date(NOW), pausedUntil: new Date(NOW + 30_000) });
    t.equal(ended.state, undefined);
  }
});

t.test('a receiver that answers 410 is disabled at once', async (t) => {
  const ended = afterFailure({ failingSince: null, pausedUntil: null }, { now: NOW, isGone: true });
  t.match(ended, { state: 'DISABLED', disabledReason: 'GONE' });
});

t.test('the file has one field a line, and the contacts in their order', async (t) => {
  const contacts = ['mailto:security@school.example', 'https://school.example/report'];
  t.equal(
    securityTxt(contacts, Date.UTC(2026, 4, 4, 3, 30)),
    `Contact: mailto:security@school.example
Contact: https://school.example/report
Expires: 2026-10-31T00:00:00.000Z
Preferred-Languages: vi, en
`,
  );
});

t.test('the file is valid for some months, and for less than a year, at any time', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), (now) => {
      const expires = Date.parse(/^Expires: (\S+)$/m.exec(securityTxt(['mailto:a@b'], now))?.[1] ?? '');
      return expires - now > 90 * DAY && expires - now < 365 * DAY;
    }),
  );
});

t.test('a contact is one address without a second line', async (t) => {
  for (const good of ['mailto:a@school.example', 'https://school.example/x?y=1', 'tel:+84-24-1234567'])
    t.ok(isSecurityContact(good), good);
  for (const bad of [
    '',
    'a@school.example',
    'http://school.example',
    'mailto:a',
    'https://',
    'mailto:a@b\nPolicy: https://evil.example',
  ])
    t.notOk(isSecurityContact(bad), encodeURIComponent(bad));
});
