import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { freePort } from '#scripts/services/port.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { labelsOf, type Sample, scrape } from './scrape.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const GUIDE = readFileSync(path.join(ROOT, 'docs/operating.md'), 'utf8');
/** Metrics of Node itself, which the guide names together. */
const USUAL = /^(process|nodejs)_/;

const port = await freePort();
const cluster = await startCluster(t, {
  workers: ['grading', 'classifier'],
  envOf: {
    grading: { METRICS_PORT: String(await freePort()) },
    classifier: { METRICS_PORT: String(port), AI_CLASSIFIER_WORKER_ENABLED: '1' },
  },
});

/** The metrics of the guide's tables: name, labels, and the processes that export them. */
function documented(): Map<string, { labels: string[]; from: string }> {
  const rows = GUIDE.matchAll(/^\| `(\w+)(?:\{([\w,]+)\})?` +\| (web|worker|both) +\|/gm);
  return new Map([...rows].map(([, name = '', labels = '', from = '']) => [name, { labels: labels.split(','), from }]));
}

function own(samples: readonly Sample[]): Map<string, string[]> {
  const found = [...labelsOf(samples)].filter(([name]) => !USUAL.test(name));
  return new Map(found.map(([name, labels]) => [name, [...labels].sort()]));
}

t.test('docs/operating.md lists exactly the metrics that processes export, with their labels', async (t) => {
  const client = await attemptClient(cluster);
  const { student, id } = await client.sitting();
  const headers = { 'x-user-id': student.id, 'x-user-role': 'STUDENT' };
  await client.call('POST', `/v1/attempts/${id}/submit`, { headers, body: {} });
  const web = own(await scrape(cluster.door().url));
  const worker = own(await scrape(`http://127.0.0.1:${port}`));
  const listed = documented();
  t.ok(listed.size > 20);
  for (const [exported, from] of [
    [web, 'web'],
    [worker, 'worker'],
  ] as const) {
    const wanted = [...listed].filter(([, row]) => row.from === 'both' || row.from === from);
    t.strictSame([...exported.keys()].sort(), wanted.map(([name]) => name).sort(), from);
    for (const [name, { labels }] of wanted) {
      t.strictSame(exported.get(name), labels.filter((label) => label !== '').sort(), name);
    }
  }
});

t.test('a process begins each known series at 0', async (t) => {
  const samples = await scrape(cluster.door().url);
  const has = (name: string, labels: Record<string, string>) =>
    samples.some(
      (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
    );
  t.ok(has('examhall_rings_lost_total', { queue: 'grading' }));
  t.ok(has('examhall_neighbour_call_duration_seconds_count', { neighbour: 'notification', outcome: 'unanswered' }));
  t.ok(has('examhall_provider_tokens_total', { provider: 'openai', direction: 'input' }));
  t.ok(
    has('http_request_duration_seconds_count', { route: '/v1/attempts/:attemptId/answers', status: '503' }),
    'a first error of saves is an increase',
  );
  t.notOk(has('examhall_dependency_up', { name: 'analytics' }), 'nothing has called it');
  const worker = await scrape(`http://127.0.0.1:${port}`);
  t.ok(worker.some(({ name, labels }) => name === 'examhall_commands_total' && labels.ending === 'dead'));
});
