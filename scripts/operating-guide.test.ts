import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { QUEUES } from '#infra/mongo/mailbox/commands.ts';
import { productionSources } from '#testing/production-sources.ts';

const ROOT = path.resolve(import.meta.dirname, '..');
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');
const GUIDE = read('docs/operating.md');
const RULES = read('ops/prometheus/rules.yml');
const SOURCES = [...productionSources().values()].join('\n');

/** Returns true if the sources register a metric of this name, or Node exports it. */
async function openExposed(): Promise<(name: string) => boolean> {
  const text = await openMetrics({ process: true }).render();
  const usual = new Set([...text.matchAll(/^# TYPE (\w+)/gm)].map(([, name = '']) => name));
  return (name) => usual.has(name) || SOURCES.includes(`'${name.replace(/_(bucket|sum|count)$/, '')}'`);
}

t.test('ops/prometheus/rules.yml uses only metrics and label values that the product exposes', async (t) => {
  const isExposed = await openExposed();
  const used = [...RULES.matchAll(/\b(?:examhall|http|nodejs|process)_\w+/g)].map(([name]) => name);
  t.ok(new Set(used).size > 5);
  for (const name of new Set(used)) t.ok(isExposed(name), name);
  for (const [, label = '', value = ''] of RULES.matchAll(/\b(name|ending|actor|route|outcome)!?="([^"]+)"/g)) {
    t.ok(SOURCES.includes(`'${value}'`), `${label}="${value}" occurs in the sources`);
  }
});

t.test('docs/operating.md lists exactly the alerts of the rules, and metrics that exist', async (t) => {
  const ofRules = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  const ofGuide = [...GUIDE.matchAll(/^\| `(Examhall\w+)` /gm)].map(([, name]) => name);
  t.strictSame(ofGuide, ofRules);
  const isExposed = await openExposed();
  for (const [, name = ''] of GUIDE.matchAll(/`(examhall_\w+|http_\w+)[`{]/g)) t.ok(isExposed(name), name);
});

t.test('docs/operating.md explains a dead command of every queue that can have one', async (t) => {
  const [, section = ''] = GUIDE.split('\n## Dead letters\n');
  // The sweeps never end: each run makes them due again.
  for (const queue of QUEUES.filter((name) => name !== 'upkeep')) {
    const [first = '', second] = queue.split(':');
    const named =
      section.includes(`\`${queue}\``) || (section.includes(`\`${first}:`) && section.includes(`\`…:${second}\``));
    t.ok(named, queue);
  }
});

t.test(
  'every log message in docs/operating.md occurs in the sources, and every error and fatal one is listed',
  async (t) => {
    const [, section = ''] = GUIDE.split('\n### Logs\n');
    const [table = ''] = section.split('\n## ');
    const listed = [...table.matchAll(/^\| (\d+) \w+ +\| (?:`` (.+?) ``|`(.+?)`) +\|/gm)];
    const messages = listed.map(([, , withTicks, plain]) => withTicks ?? plain ?? '');
    t.ok(messages.length > 20);
    for (const message of messages) t.ok(SOURCES.includes(`'${message}'`), message);
    const serious = SOURCES.matchAll(/\.(error|fatal)\(\s*(?:\{[^}]*\}|\w+),\s*'([^']+)',?\s*\)/g);
    for (const [, level, message = ''] of serious) t.ok(messages.includes(message), `${level}: ${message}`);
  },
);
