import t from 'tap';
import { type AlarmFacts, alarmsOf } from './alarms.ts';

const QUIET = { queue: 'grading', actor: 'grading', due: 0, dead: 0, oldestDueMs: null };
const WELL: AlarmFacts = {
  queues: [QUIET],
  liveActors: new Set(),
  redis: { answers: true },
  unanswering: [],
  now: 0,
  schemaFaults: [],
};
const kindsOf = (facts: Partial<AlarmFacts>) => alarmsOf({ ...WELL, ...facts }).map(({ kind }) => kind);

t.test('an idle cluster is well, also without workers', async (t) => {
  t.strictSame(alarmsOf(WELL), []);
});

t.test('due work without a live worker is an alarm at once, and with one after a minute', async (t) => {
  const due = [{ ...QUIET, due: 12, oldestDueMs: 400 }];
  t.match(alarmsOf({ ...WELL, queues: due }), [
    { kind: 'no-worker', text: 'grading: 12 due, the oldest for 0 s, and no live worker', remedy: /`grading`/ },
  ]);
  const liveActors = new Set(['grading']);
  t.strictSame(kindsOf({ queues: due, liveActors }), []);
  t.strictSame(kindsOf({ queues: [{ ...QUIET, due: 1, oldestDueMs: 59_999 }], liveActors }), []);
  t.strictSame(kindsOf({ queues: [{ ...QUIET, due: 1, oldestDueMs: 60_000 }], liveActors }), ['backlog']);
});

t.test('alarms are sorted by urgency', async (t) => {
  const queues = [{ ...QUIET, due: 1, oldestDueMs: 1, dead: 2 }];
  t.strictSame(kindsOf({ queues, redis: { answers: false }, schemaFaults: ['the schema is old'] }), [
    'schema',
    'no-worker',
    'redis-down',
    'dead-letters',
  ]);
  t.match(alarmsOf({ ...WELL, queues: [{ ...QUIET, dead: 1 }] }), [{ text: 'grading: 1 dead letter' }]);
});

t.test('a service that does not answer is one alarm, also if several workers report it', async (t) => {
  const now = Date.parse('2026-11-23T08:00:00Z');
  const failed = (name: string, sinceMinutes: number, lastMinutes: number) => ({
    name,
    since: new Date(now - sinceMinutes * 60_000),
    lastAt: new Date(now - lastMinutes * 60_000),
  });
  const told = alarmsOf({
    ...WELL,
    now,
    unanswering: [failed('profile', 12, 1), failed('question_bank', 1, 0), failed('profile', 40, 3)],
  });
  t.match(told, [
    { kind: 'dependency-down', text: /^the service `profile` .* 40 min$/, remedy: /`PROFILE_SERVICE_URL`$/ },
    { kind: 'dependency-down', remedy: /`QUESTION_BANK_SERVICE_URL`$/ },
  ]);
  t.strictSame(alarmsOf({ ...WELL, now, unanswering: [failed('profile', 60, 15)] }), [], 'an old failure is no alarm');
  t.match(alarmsOf({ ...WELL, now, unanswering: [failed('webhook', 1, 1)] }), [
    { remedy: /`NOTIFICATION_WEBHOOK_URL`/ },
  ]);
  t.match(alarmsOf({ ...WELL, now, unanswering: [failed('email', 1, 1)] }), [{ remedy: /`NOTIFICATION_EMAIL_HOST`/ }]);
});
