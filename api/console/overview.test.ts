import t from 'tap';
import type { Alarm, ClusterStatus, QueueState } from '#shared/generated/operations.ts';
import { alarmsOf, notesOf } from '#shared/operations/alarms.ts';
import { alarmBar, verdict } from './overview.ts';

const NOW = Date.UTC(2026, 10, 23, 8);
const since = new Date(NOW - 240_000);
const queue = { queue: 'grading', actor: 'grading', waiting: 1, due: 1, running: 0, dead: 1, acknowledged: 0 };
const queues = [{ ...queue, unserved: 0, suspects: 1, oldestDueMs: 90_000, workers: 0, configured: true }];
const suspects = [{ _id: 'c-1', aloneUntil: null }];
const unanswering = [{ name: 'profile', since: since.toISOString(), lastAt: since.toISOString() }];
const workers = [{ unanswering }] as Parameters<typeof alarmBar>[1]['workers'];
const heldBack = { count: 26, since };
const newest = { at: since, message: 'the notification service answered 401', _id: 'c-2' };
const refusal = { service: 'notification', status: 401 };
const failing = [{ refusal, refusedSince: since, count: 26, heldBack, newest }];
const stillest = { _id: 'c-3', workerId: 'grading@host:1', movedAt: new Date(NOW - 900_000) };
const facts = {
  queues: [{ ...queue, oldestDueMs: 90_000, suspects, poisoned: null, failing, stillest }],
  redis: { answers: false },
  now: NOW,
  schemaFaults: ['index x is missing'],
  busyLoops: [{ process: 'web@host:7', heldMs: 3_200, at: since }],
};
const reported = [{ name: 'profile', since, lastAt: since }];
/** Every kind of alarm. */
const alarms = [
  ...alarmsOf({ ...facts, liveActors: new Set(), unanswering: reported }),
  ...alarmsOf({ ...facts, liveActors: new Set(['grading']), unanswering: [] }),
] satisfies Alarm[];

const shown = (alarm: Alarm, language: 'en' | 'vi') => `${alarmBar(alarm, { queues, workers, now: NOW }, language)}`;

t.test('every kind of alarm is written in the language of the page', async (t) => {
  const kinds = new Set(alarms.map(({ kind }) => kind));
  t.strictSame([...kinds].sort(), [
    ...['backlog', 'busy-loop', 'dead-letters', 'dependency-down', 'dependency-refuses', 'held-back', 'no-worker'],
    ...['redis-down', 'schema', 'stalled-run', 'suspect'],
  ]);
  for (const alarm of alarms) {
    const [en, vi] = [shown(alarm, 'en'), shown(alarm, 'vi')];
    t.not(vi, en, alarm.kind);
    // English parts are marked as such, or are names.
    const words = vi.replaceAll(
      /<span lang="en">.*?<\/span>|<code>.*?<\/code>|<strong>(?:grading|notification|profile|web@host:7)<\/strong>/g,
      '',
    );
    t.notMatch(words, /\b(?:the|does|not|answer|check|run|since|service|scale)\b/i, `${alarm.kind}: ${words}`);
    t.notMatch(vi, /<p class="alarm" lang="en">/, alarm.kind);
  }
});

t.test('an alarm of a service states for how long it has been silent, and the setting to check', async (t) => {
  const [down] = alarms.filter(({ kind }) => kind === 'dependency-down');
  if (down === undefined) throw new Error('there is no such alarm');
  t.match(shown(down, 'en'), /<strong>profile<\/strong>: does not answer its workers for 4 min\..*PROFILE_SERVICE_URL/);
  t.match(shown(down, 'vi'), /không trả lời worker trong 4 phút/);
  t.match(`${alarmBar(down, { queues, workers: [], now: NOW }, 'en')}`, /does not answer its workers\./);
});

t.test('a refusal states the service, its status, since when, how many commands wait and the settings', async (t) => {
  const refused = alarms.find(({ kind }) => kind === 'dependency-refuses');
  if (refused === undefined) throw new Error('there is no such alarm');
  t.match(
    shown(refused, 'en'),
    /<strong>notification<\/strong>: answers 401 for 4 min, and 26 commands wait\. Correct .*NOTIFICATION_INTERNAL_SERVICE_TOKEN/,
  );
  t.match(shown(refused, 'vi'), /trả lời 401 trong 4 phút, và 26 lệnh đang chờ/);
});

t.test('an alarm of a suspect names the command', async (t) => {
  const suspect = alarms.findLast(({ kind }) => kind === 'suspect');
  if (suspect === undefined) throw new Error('there is no such alarm');
  for (const language of ['en', 'vi'] as const)
    t.match(shown(suspect, language), '<code>examhall trace c-1</code>', language);
});

t.test('notes follow the verdict, which then does not state that all is well', async (t) => {
  const parents = {
    ...queues[0],
    queue: 'gradenotices:parent',
    actor: 'gradenotices',
    unserved: 12,
    dead: 0,
    failing: [],
  } as const;
  const events = { ...queues[0], queue: 'upkeep:webhooks', actor: 'upkeep', unserved: 0, dead: 3, failing } as const;
  const noted = [parents, events] as unknown as (typeof parents & QueueState)[];
  const notes = notesOf(noted, [{ actor: 'gradenotices', queues: ['gradenotices:student'] }], NOW);
  const told = (language: 'en' | 'vi', change: Partial<ClusterStatus> = {}) =>
    `${verdict({ well: true, alarms: [], notes, ...change }, { queues: noted, workers, now: NOW }, language)}`;
  t.match(told('en'), /No alarm\.[\s\S]*<strong>gradenotices:parent<\/strong>: 12 waiting: .*PROFILE_SERVICE_URL/);
  t.match(told('en'), /<strong>upkeep:webhooks<\/strong>: <a href="\/ops\/dead-letters\?queue=upkeep:webhooks">3 dead/);
  t.match(
    told('en'),
    /<strong>upkeep:webhooks<\/strong>: 26 commands have backed off for over 10 minutes, the first for 4 min\./,
  );
  t.match(told('vi'), /Không có báo động\.[\s\S]*12 lệnh đang chờ cấu hình: <span lang="en">/);
  t.notMatch(told('en'), /All is well|class="alarm"/);
  t.match(told('en', { notes: [] }), /All is well\./);
  t.notMatch(told('en', { well: false, alarms }), /No alarm/);
});
