import t from 'tap';
import type { Alarm } from '#shared/generated/operations.ts';
import { alarmsOf } from '#shared/operations/alarms.ts';
import { alarmBar } from './overview.ts';

const NOW = Date.UTC(2026, 10, 23, 8);
const since = new Date(NOW - 300_000);
const queue = { queue: 'grading', actor: 'grading', waiting: 1, due: 1, running: 0, dead: 1, acknowledged: 0 };
const queues = [{ ...queue, oldestDueMs: 90_000, workers: 0, configured: true }];
const unanswering = [{ name: 'profile', since: since.toISOString(), lastAt: since.toISOString() }];
const workers = [{ unanswering }] as Parameters<typeof alarmBar>[1]['workers'];
const facts = { queues, redis: { answers: false }, now: NOW, schemaFaults: ['index x is missing'] };
const reported = [{ name: 'profile', since, lastAt: since }];
/** Every kind of alarm. */
const alarms = [
  ...alarmsOf({ ...facts, liveActors: new Set(), unanswering: reported }),
  ...alarmsOf({ ...facts, liveActors: new Set(['grading']), unanswering: [] }),
] satisfies Alarm[];

const shown = (alarm: Alarm, language: 'en' | 'vi') => `${alarmBar(alarm, { queues, workers, now: NOW }, language)}`;

t.test('every kind of alarm is written in the language of the page', async (t) => {
  const kinds = new Set(alarms.map(({ kind }) => kind));
  t.strictSame([...kinds].sort(), ['backlog', 'dead-letters', 'dependency-down', 'no-worker', 'redis-down', 'schema']);
  for (const alarm of alarms) {
    const [en, vi] = [shown(alarm, 'en'), shown(alarm, 'vi')];
    t.not(vi, en, alarm.kind);
    // English parts are marked as such, or are names.
    const words = vi.replaceAll(
      /<span lang="en">.*?<\/span>|<code>.*?<\/code>|<strong>(?:grading|profile)<\/strong>/g,
      '',
    );
    t.notMatch(words, /\b(?:the|does|not|answer|check|run|since|service|scale)\b/i, `${alarm.kind}: ${words}`);
    t.notMatch(vi, /<p class="alarm" lang="en">/, alarm.kind);
  }
});

t.test('an alarm of a service states for how long it has been silent, and the setting to check', async (t) => {
  const [down] = alarms.filter(({ kind }) => kind === 'dependency-down');
  if (down === undefined) throw new Error('there is no such alarm');
  t.match(shown(down, 'en'), /<strong>profile<\/strong>: does not answer its workers for 5 min\..*PROFILE_SERVICE_URL/);
  t.match(shown(down, 'vi'), /không trả lời worker trong 5 phút/);
  t.match(`${alarmBar(down, { queues, workers: [], now: NOW }, 'en')}`, /does not answer its workers\./);
});
