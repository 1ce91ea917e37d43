import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { findPromtool } from './promtool.ts';
import type { Phase, Recording } from './recording.ts';

const RULES = path.resolve(import.meta.dirname, '../../ops/prometheus/rules.yml');
const TEXT = readFileSync(RULES, 'utf8');

/** Every alert of the rules. */
export const ALERTS: readonly string[] = [...TEXT.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);

/** Alerts whose fault `faults.e2e.test.ts` causes in front doors and workers. */
export const CAUSED_INSIDE = [
  'ExamhallFrontDoor500',
  'ExamhallSavesSlow',
  'ExamhallLoginsThrottled',
  'ExamhallPasswordsGuessed',
  'ExamhallTokensGuessed',
  'ExamhallTokenReused',
  'ExamhallConnectionsDropped',
  'ExamhallAuditFailed',
  'ExamhallSubscriptionDisabled',
  'ExamhallLeasesLost',
  'ExamhallEventLoopBlocked',
  'ExamhallEventLoopStopped',
  'ExamhallConnectionsExhausted',
  'ExamhallCircuitOpen',
  'ExamhallSlotsFull',
  'ExamhallBackgroundDropped',
] as const;

/** A run of a fault, and alerts that fire in it. */
export interface Played {
  name: string;
  fault: Omit<Phase, 'minutes'>;
  alerts: readonly string[];
}

/** Minutes of calm before a fault, and of the fault itself. */
const [BEFORE, DURING] = [15, 45];

const promtool = await findPromtool();
if (promtool.file === null && process.env.PROMTOOL === 'required') throw new Error(promtool.missing);

/** The reason why this machine cannot play rules, or false. */
export const SKIP = promtool.file === null ? `${promtool.missing}; CI runs this test` : false;

/**
 * Plays a recording to `promtool`: those alerts of each fault fire in its run, and none fires in the calm run. If the cluster lacks process
 * types, whose absence is an alert, `among` names the alerts that the calm run is checked for.
 */
export async function playRules(
  t: Test,
  recording: Recording,
  calm: Omit<Phase, 'minutes'>,
  played: readonly Played[],
  among: readonly string[] = [],
): Promise<void> {
  const tool = promtool.file ?? '';
  const run = promisify(execFile);
  await run(tool, ['check', 'rules', RULES]);
  const isWanted = (name: string) => TEXT.includes(name);
  const during = (fault: Omit<Phase, 'minutes'>) => [
    { ...calm, minutes: BEFORE },
    { ...fault, minutes: DURING },
  ];
  const last = BEFORE + DURING - 1;
  const tests = played.map(({ name, fault, alerts }) => ({
    name,
    interval: '1m',
    input_series: recording.play(during(fault), isWanted),
    promql_expr_test: [atMinute(last, alerts, alerts)],
  }));
  const quiet = {
    name: 'calm',
    interval: '1m',
    input_series: recording.play(during(calm), isWanted),
    promql_expr_test: [10, 30, last].map((minute) => atMinute(minute, among, [])),
  };
  const file = path.join(t.testdir(), 'rules.test.json');
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: [quiet, ...tests] }));
  const failed = await run(tool, ['test', 'rules', file]).then(
    () => '',
    (error: { stdout?: string; stderr?: string }) => `${error.stdout}${error.stderr}`,
  );
  t.equal(failed, '');
}

/** Returns a check that `firing` are those that fire among these alerts; without names, among all. */
function atMinute(minute: number, among: readonly string[], firing: readonly string[]) {
  const named = among.length === 0 ? '' : `, alertname=~"${among.join('|')}"`;
  return {
    expr: `group by (alertname) (ALERTS{alertstate="firing"${named}})`,
    eval_time: `${minute}m`,
    exp_samples: [...firing].sort().map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
  };
}
