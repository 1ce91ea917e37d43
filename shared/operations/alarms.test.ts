import t from 'tap';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { actorOf, EVENT_QUEUES } from '#shared/kernel/command.ts';
import { type AlarmFacts, alarmsOf, notesOf } from './alarms.ts';

const IDLE = { due: 0, dead: 0, oldestDueMs: null, suspects: [], poisoned: null, failing: [], stillest: null };
const QUIET = { queue: 'grading', actor: 'grading', ...IDLE };
const WELL: AlarmFacts = {
  queues: [QUIET],
  liveActors: new Set(),
  redis: { answers: true },
  unanswering: [],
  busyLoops: [],
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

t.test('a suspect is an alarm with its queue and id, and no call for more workers', async (t) => {
  const held = { _id: 'held-1', aloneUntil: null };
  const alone = { _id: 'alone-1', aloneUntil: new Date('2026-11-23T08:01:00Z') };
  const toldOf = (suspects: (typeof held | typeof alone)[], liveActors = new Set(['grading'])) =>
    alarmsOf({ ...WELL, liveActors, queues: [{ ...QUIET, suspects }] });
  const text = 'grading: two runs of held-1 did not end, so it is held until it can run alone';
  const remedy = 'run `examhall trace held-1`; the command ends by itself, done or dead';
  t.strictSame(toldOf([held]), [{ kind: 'suspect', about: 'grading', text, remedy }]);
  t.match(toldOf([held, alone]), [{ text: /of alone-1 .*, so it runs alone until 2026-11-23T08:01:00.000Z; 1 more/ }]);
  t.match(toldOf([held], new Set()), [{ remedy: 'scale `grading`' }], 'without a worker it cannot run');
  const poisoned = { count: 1, newest: 'dead-1' };
  t.match(alarmsOf({ ...WELL, queues: [{ ...QUIET, dead: 3, poisoned }] }), [
    { kind: 'dead-letters', text: 'grading: 3 dead letters; 1 died in a run alone, the last one dead-1' },
  ]);
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

t.test('commands that wait for a setting are a note that names it, as a trace does', async (t) => {
  const parents = { queue: 'gradenotices:parent', actor: 'gradenotices', unserved: 12, dead: 0, failing: [] } as const;
  const served = { ...parents, queue: 'gradenotices:student', unserved: 0 } as const;
  const live = [{ actor: 'grading' }, { actor: 'gradenotices', queues: ['gradenotices:student'] }];
  t.strictSame(notesOf([served, parents], live, 0), [
    {
      kind: 'not-configured',
      about: 'gradenotices:parent',
      text: 'gradenotices:parent: 12 waiting, because the profile service is not configured',
      remedy: 'set `PROFILE_SERVICE_URL`',
    },
  ]);
  const neither = [{ actor: 'gradenotices', queues: [] }];
  t.match(notesOf([parents], neither, 0), [{ remedy: 'set `NOTIFICATION_SERVICE_URL`' }]);
});

t.test('each dead letter is either an alarm or a note', async (t) => {
  for (const queue of QUEUES) {
    const facts = { ...QUIET, queue, actor: actorOf(queue), dead: 2, unserved: 0 };
    const alarms = alarmsOf({ ...WELL, queues: [facts] });
    const notes = notesOf([facts], [], 0);
    t.match([...alarms, ...notes], [{ about: queue, text: `${queue}: 2 dead letters` }]);
    t.equal(alarms.length + notes.length, 1, queue);
    t.equal(notes.length, EVENT_QUEUES.includes(queue) ? 1 : 0, queue);
  }
});
