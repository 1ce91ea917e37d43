import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { type Sample, scrape } from './scrape.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const GUIDE = readFileSync(path.join(ROOT, 'docs/operating.md'), 'utf8');
/** Metrics of Node itself, which the guide names together. */
const USUAL = /^(process|nodejs)_/;

const [port, noticePort] = [await freePort(), await freePort()];
const cluster = await startCluster(t, {
  inside: true,
  workers: ['grading', 'classifier', 'gradenotices'],
  // A process has series of the neighbours that it reads: front doors and `classifier` of this one. None calls it.
  env: { QUESTION_BANK_SERVICE_URL: `http://127.0.0.1:${await freePort()}` },
  envOf: {
    gradenotices: { METRICS_PORT: String(noticePort) },
    classifier: { METRICS_PORT: String(port), AI_CLASSIFIER_WORKER_ENABLED: '1' },
  },
});

/** Returns the labels of each metric, by its name without the suffixes of histograms. A sample without labels counts as a metric with none. */
function labelsOf(samples: readonly Sample[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  const histograms = new Set(
    samples.filter(({ name }) => name.endsWith('_bucket')).map(({ name }) => name.slice(0, -'_bucket'.length)),
  );
  for (const { name, labels } of samples) {
    const base = name.replace(/_(bucket|sum|count)$/, '');
    const metric = histograms.has(base) ? base : name;
    const known = found.get(metric) ?? new Set();
    for (const label of Object.keys(labels)) if (label !== 'le') known.add(label);
    found.set(metric, known);
  }
  return found;
}

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
  t.ok(has('examhall_neighbour_call_duration_seconds_count', { neighbour: 'question_bank', outcome: 'unanswered' }));
  t.ok(has('examhall_provider_tokens_total', { provider: 'openai', direction: 'input' }));
  t.ok(
    has('http_request_duration_seconds_count', { route: '/v1/attempts/:attemptId/answers', status: '503' }),
    'a first error of saves is an increase',
  );
  t.notOk(has('examhall_dependency_up', { name: 'question_bank' }), 'nothing has called it');
  const worker = await scrape(`http://127.0.0.1:${port}`);
  t.ok(worker.some(({ name, labels }) => name === 'examhall_commands_total' && labels.ending === 'dead'));
});

/** A selector of a metric in a rule or a panel: its name, and its label matchers. */
interface Selector {
  name: string;
  matchers: { label: string; operator: string; value: string }[];
}

function selectorsOf(expressions: string): Selector[] {
  return [...expressions.matchAll(/\b((?:examhall|http|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)].map(
    ([, name = '', inner = '']) => ({
      name,
      matchers: [...inner.matchAll(/(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"/g)].map(
        ([, label = '', operator = '', value = '']) => ({ label, operator, value: value.replaceAll('\\\\', '\\') }),
      ),
    }),
  );
}

/** Labels whose values depend on requests that this test does not make. The static test finds their values in the sources. */
const BY_REQUEST = new Set(['status', 'route', 'method']);

t.test('rules and dashboard use only metrics, labels and label values that processes export', async (t) => {
  const dashboard = JSON.parse(readFileSync(path.join(ROOT, 'ops/grafana/examhall.json'), 'utf8'));
  const expressions = dashboard.panels.flatMap(({ targets = [] }: { targets?: { expr: string }[] }) =>
    targets.map(({ expr }) => expr),
  );
  const rules = readFileSync(path.join(ROOT, 'ops/prometheus/rules.yml'), 'utf8');
  const code = rules.replaceAll(/^ *#.*$/gm, '');
  const urls = [cluster.door().url, `http://127.0.0.1:${port}`, `http://127.0.0.1:${noticePort}`];
  const samples = (await Promise.all(urls.map(scrape))).flat();
  const selectors = selectorsOf([code, ...expressions].join('\n'));
  t.ok(selectors.length > 60);
  const cases = readFileSync(path.join(ROOT, 'ops/prometheus/rules.test.yml'), 'utf8');
  for (const { name, matchers } of selectorsOf([...cases.matchAll(/series: '(.+?)'/g)].join('\n'))) {
    const labels = labelsOf(samples.filter((sample) => sample.name === name)).values();
    const known = new Set(['instance', 'le', ...[...labels].flatMap((all) => [...all])]);
    for (const { label } of matchers) t.ok(known.has(label), `${name}{${label}} of a case is exported`);
  }
  for (const { name, matchers } of selectors) {
    const found = samples.filter((sample) => sample.name === name);
    t.ok(found.length > 0, name);
    for (const { label, operator, value } of matchers) {
      t.ok(
        found.some(({ labels }) => label in labels),
        `${name}{${label}}`,
      );
      if (operator.startsWith('!') || BY_REQUEST.has(label)) continue;
      const isMeant =
        operator === '=' ? (text: string) => text === value : (text: string) => new RegExp(`^(?:${value})$`).test(text);
      t.ok(
        found.some(({ labels }) => isMeant(labels[label] ?? '')),
        `${name}{${label}${operator}"${value}"}`,
      );
    }
  }
  const exported = new Set(samples.flatMap(({ labels }) => Object.keys(labels)));
  // `instance` is a label of the scrape, the others are those of recording rules and alerts.
  for (const label of ['instance', 'objective', 'alertname', 'severity']) exported.add(label);
  for (const [, names = ''] of [code, ...expressions].join('\n').matchAll(/\b(?:by|on) \(([^)]*)\)/g))
    for (const label of names.split(',')) t.ok(exported.has(label.trim()), `by (${label.trim()})`);

  const recorded = new Set([...code.matchAll(/- record: (\S+)/g)].map(([, name]) => name));
  for (const [name] of [code, ...expressions].join('\n').matchAll(/\bexamhall:\w+(?::\w+)?/g))
    t.ok(recorded.has(name), name);
});
