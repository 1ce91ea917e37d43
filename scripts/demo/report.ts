import type { Latencies } from './latencies.ts';

export interface ReportFacts {
  attempts: number;
  acknowledged: number;
  answered: number;
  stored: number;
  graded: number;
  handoffs: number;
  repeated: number;
  notices: { expected: number; arrived: number; recipients: number; repeats: number; lostReplies: number };
  noticesChecked: boolean;
  scores: readonly number[];
  maxScore: number;
  seconds: number;
  faults: readonly string[];
}

const BAR = 40;
const SHOWN_FAULTS = 20;

/** The report at the end, as lines. */
export function reportLines(facts: ReportFacts, latencies: Latencies): string[] {
  return [
    '',
    'Times, as the client saw them (ms)',
    ...latencyTable(latencies),
    '',
    'Counts',
    `  attempts        ${facts.attempts} started, ${facts.graded} graded, ${facts.handoffs} essays marked`,
    `  answers         ${facts.acknowledged} saves acknowledged; of ${facts.answered} last ones ${facts.stored} are stored as given`,
    `  sent again      ${facts.repeated} requests, because no reply came`,
    ...noticeLines(facts),
    '',
    `Scores, of ${facts.maxScore}`,
    ...histogram(facts.scores, facts.maxScore),
    '',
    ...verdict(facts),
  ];
}

function latencyTable(latencies: Latencies): string[] {
  const row = (cells: readonly string[]) =>
    `  ${cells[0]?.padEnd(16)} ${cells
      .slice(1)
      .map((cell) => cell.padStart(8))
      .join(' ')}`;
  const number = (ms: number) => ms.toFixed(ms < 10 ? 1 : 0);
  return [
    row(['', 'count', 'p50', 'p99', 'max']),
    ...latencies
      .names()
      .map((name) =>
        row([
          name,
          `${latencies.count(name)}`,
          ...[0.5, 0.99, 1].map((share) => number(latencies.quantile(name, share))),
        ]),
      ),
  ];
}

function noticeLines({ notices, noticesChecked }: ReportFacts): string[] {
  if (!noticesChecked) return [`  notices         ${notices.expected} are queued and wait; none was delivered here`];
  return [
    `  notices         ${notices.arrived} of ${notices.expected} arrived, for ${notices.recipients} recipients, each once`,
    `                  ${notices.lostReplies} replies were lost on purpose, ${notices.repeats} repeats were recognised by their id`,
  ];
}

/** One bar per point. */
function histogram(scores: readonly number[], maxScore: number): string[] {
  const bins = Array.from({ length: Math.ceil(maxScore) }, () => 0);
  for (const score of scores) {
    const bin = Math.min(bins.length - 1, Math.floor(score));
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  const most = Math.max(1, ...bins);
  const lines = bins.map((count, bin) => {
    const label = `${bin}–${bin + 1}`.padStart(5);
    return `  ${label} ${'▇'.repeat(Math.round((count / most) * BAR))}${count === 0 ? '' : ` ${count}`}`;
  });
  const mean = scores.reduce((sum, score) => sum + score, 0) / Math.max(1, scores.length);
  return [
    ...lines,
    `  mean ${mean.toFixed(2)}, best ${Math.max(0, ...scores)}, worst ${Math.min(maxScore, ...scores)}`,
  ];
}

function verdict({ faults, noticesChecked, seconds }: ReportFacts): string[] {
  const time = `${seconds.toFixed(1)} s`;
  if (faults.length > 0) {
    const more = faults.length - SHOWN_FAULTS;
    return [
      `${faults.length} fault(s) in ${time}:`,
      ...faults.slice(0, SHOWN_FAULTS).map((fault) => `  ✗ ${fault}`),
      ...(more > 0 ? [`  … and ${more} more`] : []),
    ];
  }
  const held = '✓ nothing lost, nothing double: every answer, score and total was read again and recomputed';
  return noticesChecked ? [`${held} (${time})`] : [`${held} (${time})`, '  … but the notices could not be checked'];
}
