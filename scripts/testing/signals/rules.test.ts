import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { onPath } from '#scripts/start/services/tools.ts';
import { optionalTool, unpackedPackage } from '#testing/optional-tool.ts';

interface Case {
  readonly input_series: readonly { readonly series: string }[];
  readonly promql_expr_test: readonly { readonly exp_samples?: readonly { readonly labels: string }[] }[];
}

const FOLDER = path.resolve(import.meta.dirname, '../../../ops/prometheus');
const RULES = readFileSync(path.join(FOLDER, 'rules.yml'), 'utf8');
/** Every rule with its expression, by its name. A recorded name may have several. */
const EXPRESSIONS = Map.groupBy(
  (parse(RULES).groups as { rules: { alert?: string; record?: string; expr: string }[] }[]).flatMap(
    ({ rules }) => rules,
  ),
  ({ alert, record }) => alert ?? record ?? '',
);

/** Returns the metrics that a rule reads, also by recorded rules. */
function metricsOf(rule: string): Set<string> {
  const names = (EXPRESSIONS.get(rule) ?? []).flatMap(({ expr }) => expr.match(/\b(?:examhall|http)[\w:]+/g) ?? []);
  return new Set(names.flatMap((name) => (EXPRESSIONS.has(name) ? [...metricsOf(name)] : [name])));
}

const promtool = await optionalTool(
  'PROMTOOL',
  async () =>
    onPath(['promtool'], process.env.PATH) ?? `${await unpackedPackage('prometheus', false)}/usr/bin/promtool`,
);

t.test(
  'each alert has a case in which it fires, one in which its metrics leave it silent, and a live fault',
  async (t) => {
    const { tests } = parse(readFileSync(path.join(FOLDER, 'rules.test.yml'), 'utf8')) as { tests: Case[] };
    const moments = tests.flatMap(({ input_series, promql_expr_test }) => {
      const metrics = new Set(input_series.map(({ series }) => series.replace(/\{.*/, '')));
      return promql_expr_test.map(({ exp_samples = [] }) => ({
        metrics,
        firing: exp_samples.map(({ labels }) => labels).join(),
      }));
    });
    const faults = ['cluster', 'process'].map((name) =>
      readFileSync(path.join(import.meta.dirname, `${name}-faults.e2e.test.ts`), 'utf8'),
    );
    const alerts = [...EXPRESSIONS].flatMap(([name, [first]]) => (first?.alert === undefined ? [] : [name]));
    t.ok(alerts.length > 30);
    for (const alert of alerts) {
      const fires = ({ firing }: { firing: string }) => firing.includes(`"${alert}"`);
      const needed = metricsOf(alert);
      t.ok(moments.some(fires), `${alert} fires`);
      t.ok(
        moments.some((moment) => !fires(moment) && needed.isSubsetOf(moment.metrics)),
        `${alert} stays silent`,
      );
      t.match(faults.join('\n'), `'${alert}'`);
    }
  },
);
const skip = 'missing' in promtool && promtool.missing;
t.test('promtool finds every case of the rules right', { skip }, async (t) => {
  for (const args of [
    ['check', 'rules', 'rules.yml'],
    ['test', 'rules', 'rules.test.yml'],
  ]) {
    const file = 'tool' in promtool ? promtool.tool : '';
    const { status, stdout, stderr } = spawnSync(file, args, { cwd: FOLDER, encoding: 'utf8' });
    t.equal(status, 0, `${stdout}${stderr}`);
  }
});
